// Parameters on servers, of which fast workers are a bounded number of clocks ahead.
#include "paceline/torch/strategy/server/server_strategy.h"

namespace paceline::strategy::catalogue {

Strategy ssp() {
  return server_strategy("ssp", "Ho et al., NIPS 2013");
}

}  // namespace paceline::strategy::catalogue
