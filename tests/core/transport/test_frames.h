// Two kinds of frames that transport does not know, as rooms above it have them.
#pragma once

#include <array>

#include "paceline/core/transport/frame/frame_kinds.h"

namespace paceline::test {

inline constexpr transport::FrameType kShortFrame{100}, kLongFrame{101};
inline constexpr transport::FrameType kUnknownFrame{102};  // no link of the tests knows it

inline constexpr auto kTestFrames = std::to_array<transport::FrameKind>({
    {kShortFrame, "short", transport::kLongestControlPayload},
    {kLongFrame, "long", transport::kLongestPayload},
});
inline constexpr transport::FrameKinds kTestKinds(kTestFrames);

}  // namespace paceline::test
