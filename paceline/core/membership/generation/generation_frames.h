// The frames that a generation itself sends over its links, beside transport's (docs/wire.md).
#pragma once

#include <array>

#include "paceline/core/transport/frame/frame_kinds.h"

namespace paceline::membership {

namespace frame {

// A message of a protocol that runs as a machine (core/machine): `sequence` is its kind, `index`
// its index.
inline constexpr transport::FrameType kMachine{22};
inline constexpr transport::FrameType kDevice{31};  // {name}: in whose memory its buffers lie

}  // namespace frame

inline constexpr std::size_t kLongestDeviceName = 64;

inline constexpr auto kGenerationFrames = std::to_array<transport::FrameKind>({
    {frame::kMachine, "machine", transport::kLongestPayload},
    {frame::kDevice, "device", kLongestDeviceName},
});

}  // namespace paceline::membership
