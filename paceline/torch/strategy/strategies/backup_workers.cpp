// Parameters on servers, where a step closes without the slowest workers.
#include "paceline/torch/strategy/server/server_strategy.h"

namespace paceline::strategy::catalogue {

Strategy backup_workers() {
  return server_strategy("backup_workers", "Chen, Monga, Bengio, Jozefowicz, 2016");
}

}  // namespace paceline::strategy::catalogue
