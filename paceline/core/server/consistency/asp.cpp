// Asynchronous parallel: every push is applied as it comes, and nobody waits for anybody.
// Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {

Consistency asp() {
  return {.name = "asp",
          .summary = "every push is applied as it comes; nobody waits",
          .reference = "Dean et al., NIPS 2012",
          .settings = {update_setting()},
          .pacing = [](const Settings& settings) {
            return Pacing{.by_steps = false,
                          .lead = kAnyLead,
                          .shows_on_arrival = true,
                          .worker_updates = settings.on("update")};
          }};
}

}  // namespace paceline::server::catalogue
