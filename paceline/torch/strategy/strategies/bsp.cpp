// Parameters on servers, where every step waits for all workers.
#include "paceline/torch/strategy/server/server_strategy.h"

namespace paceline::strategy::catalogue {

Strategy bsp() {
  return server_strategy("bsp",
                         "Valiant, A bridging model for parallel computation, CACM 33, 1990");
}

}  // namespace paceline::strategy::catalogue
