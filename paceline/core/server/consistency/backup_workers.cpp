// Backup workers: a step closes without the slowest, whose pushes are dropped.
// Chen, Monga, Bengio, Jozefowicz, "Revisiting Distributed Synchronous SGD", 2016.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {

Consistency backup_workers() {
  return {.name = "backup_workers",
          .summary = "a step closes without the slowest workers, whose pushes are dropped",
          .reference = "Chen, Monga, Bengio, Jozefowicz, 2016",
          .settings = {{.name = "spare",
                        .standard = 1,
                        .least = 0,
                        .most = 1e6,
                        .meaning = "workers that a step does not wait for; 0 is bsp",
                        .whole = true}},
          .pacing = [](const Settings& settings) {
            return Pacing{.spare = settings.as<int>("spare")};
          }};
}

}  // namespace paceline::server::catalogue
