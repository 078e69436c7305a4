#include "paceline/core/membership/generation/named_device.h"

namespace paceline::membership {

void name_device(transport::Reactor& reactor, const std::shared_ptr<Generation>& generation,
                 const std::string& device) {
  reactor.status().has_device(device);
  reactor.post([generation, device] { generation->name_device(device); });
}

}  // namespace paceline::membership
