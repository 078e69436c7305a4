// Stale synchronous parallel: a fast worker may be some clocks ahead of the slowest, and sees all
// that is older.
// Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server",
// NIPS 2013.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {

Consistency ssp() {
  return {.name = "ssp",
          .summary = "workers are a bounded number of clocks apart, and see all that is older",
          .reference = "Ho et al., NIPS 2013",
          .settings = {{.name = "staleness",
                        .standard = 3,
                        .least = 0,
                        .most = 1e6,
                        .meaning = "clocks that a worker may be ahead of the slowest before it "
                                   "waits; 0 is bsp",
                        .whole = true},
                       {.name = "best_effort",
                        .standard = 0,
                        .meaning = "shows updates as soon as they arrive, also those that the "
                                   "slowest workers need not see yet",
                        .whole = true,
                        .words = {"off", "on"}},
                       update_setting()},
          .pacing = [](const Settings& settings) {
            return Pacing{.by_steps = false,
                          .lead = settings.as<std::int64_t>("staleness"),
                          .shows_on_arrival = settings.on("best_effort"),
                          .worker_updates = settings.on("update")};
          }};
}

}  // namespace paceline::server::catalogue
