// Parameters on servers, where a worker goes on while its last steps are open.
#include "paceline/torch/strategy/server/server_strategy.h"

namespace paceline::strategy::catalogue {

Strategy bounded_delay() {
  return server_strategy("bounded_delay", "Li et al., OSDI 2014");
}

}  // namespace paceline::strategy::catalogue
