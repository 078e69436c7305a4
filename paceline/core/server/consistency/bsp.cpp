// Bulk synchronous parallel: a step has one push of each worker, and all read what it makes.
// Valiant, "A bridging model for parallel computation", CACM 33, 1990.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {

Consistency bsp() {
  return {.name = "bsp",
          .summary = "every step waits for all workers, and all read the same values",
          .reference = "Valiant, A bridging model for parallel computation, CACM 33, 1990",
          .pacing = [](const Settings&) { return Pacing{}; }};
}

}  // namespace paceline::server::catalogue
