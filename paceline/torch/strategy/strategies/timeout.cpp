// Parameters on servers, where a step waits for the others only some time.
#include "paceline/torch/strategy/server/server_strategy.h"

namespace paceline::strategy::catalogue {

Strategy timeout() {
  return server_strategy("timeout", "Zhang, Gupta, Lian, Liu, IJCAI 2016");
}

}  // namespace paceline::strategy::catalogue
