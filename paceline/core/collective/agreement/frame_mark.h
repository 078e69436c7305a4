// The fields that all frames of one collective operation have in common.
#pragma once

#include <cstdint>

#include "paceline/core/transport/frame/frame.h"

namespace paceline::collective {

struct FrameMark {
  std::uint32_t group;
  std::uint64_t sequence;    // of the operation in the group
  std::uint64_t descriptor;  // the fingerprint of the call

  transport::FrameHeader header(transport::FrameType type, std::uint32_t index = 0) const {
    return {.type = type,
            .sequence = sequence,
            .index = index,
            .descriptor = descriptor,
            .group = group};
  }
};

}  // namespace paceline::collective
