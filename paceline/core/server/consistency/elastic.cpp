// Elastic averaging: the table is a centre, which workers push their own values to, and which is
// moved towards them by a share of the difference. They pull that difference, and take it off.
// Zhang, Choromanska, LeCun, "Deep learning with Elastic Averaging SGD", NeurIPS 2015: the
// asynchronous form.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {

Consistency elastic() {
  return {.name = "elastic",
          .summary = "workers and the table's centre pull each other; nobody waits",
          .reference = "Zhang, Choromanska, LeCun, NeurIPS 2015",
          .settings = {{.name = "alpha",
                        .standard = 0.225,
                        .least = 0,
                        .most = 2,
                        .meaning = "the share of their difference by which both are moved"}},
          .pacing =
              [](const Settings& settings) {
                return Pacing{.by_steps = false,
                              .lead = kAnyLead,
                              .shows_on_arrival = true,
                              .elastic = settings["alpha"]};
              },
          .is_strategy = false};
}

}  // namespace paceline::server::catalogue
