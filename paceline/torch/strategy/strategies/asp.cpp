// Parameters on servers, where every gradient is applied as it comes.
#include "paceline/torch/strategy/server/server_strategy.h"

namespace paceline::strategy::catalogue {

Strategy asp() {
  return server_strategy("asp", "Dean et al., NIPS 2012");
}

}  // namespace paceline::strategy::catalogue
