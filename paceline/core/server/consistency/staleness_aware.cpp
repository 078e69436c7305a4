// Staleness-aware: every push is applied as it comes, and by a lower rate the more versions its
// worker had not read. With softsync a step is made of several pushes.
// Zhang, Gupta, Lian, Liu, "Staleness-aware Async-SGD for Distributed Deep Learning", IJCAI 2016.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {

// The paper's rate is no lower than asp's at a staleness of 1, where asp may be unstable.
Consistency staleness_aware() {
  return {.name = "staleness_aware",
          .summary = "every push is applied as it comes, by a rate that falls with its staleness",
          .reference = "Zhang, Gupta, Lian, Liu, IJCAI 2016",
          .settings = {{.name = "rate",
                        .standard = 0,
                        .meaning = "the rate of a push of staleness t: damped is rate / (t + 1), "
                                   "paper is rate / max(1, t)",
                        .whole = true,
                        .words = {"damped", "paper"}},
                       {.name = "softsync",
                        .standard = 0,
                        .least = 0,
                        .most = 1e6,
                        .meaning = "n: each step has floor(workers / n) pushes, whoever they come "
                                   "from; 0: one",
                        .whole = true}},
          .pacing = [](const Settings& settings) {
            return Pacing{.by_steps = false,
                          .lead = kAnyLead,
                          .shows_on_arrival = true,
                          .stale_rate = settings.on("rate") ? StaleRate::paper : StaleRate::damped,
                          .softsync = settings.as<int>("softsync")};
          }};
}

}  // namespace paceline::server::catalogue
