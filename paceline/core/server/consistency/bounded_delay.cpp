// Bounded delay: a worker goes on while its own last steps are still open on the server.
// Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014, 3.5.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {

// The window of unanswered pushes bounds the delay: step t + steps is pushed while t is open.
Consistency bounded_delay() {
  return {.name = "bounded_delay",
          .summary = "steps have one push of each worker, and a worker may have some open",
          .reference = "Li et al., OSDI 2014",
          .settings = {{.name = "steps",
                        .standard = 1,
                        .least = 0,
                        .most = kWindow - 1,
                        .meaning = "steps that may be open when a worker goes on; 0 is bsp",
                        .whole = true},
                       {.name = "exact",
                        .standard = 0,
                        .meaning = "a worker reads the values from exactly so many steps ago, "
                                   "also where newer ones are there",
                        .whole = true,
                        .words = {"off", "on"}}},
          .pacing = [](const Settings& settings) {
            return Pacing{.lead = settings.as<std::int64_t>("steps"),
                          .exact = settings.on("exact")};
          }};
}

}  // namespace paceline::server::catalogue
