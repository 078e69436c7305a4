// Names the device in whose memory a rank's buffers lie, for `paceline top` and for the other ranks.
#pragma once

#include <memory>
#include <string>

#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::membership {

// THREAD: any.
void name_device(transport::Reactor& reactor, const std::shared_ptr<Generation>& generation,
                 const std::string& device);

}  // namespace paceline::membership
