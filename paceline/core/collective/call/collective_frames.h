// The frames of collectives and of point-to-point operations, beside transport's (docs/wire.md).
#pragma once

#include <array>

#include "paceline/core/transport/frame/frame_kinds.h"

namespace paceline::collective {

namespace frame {

using transport::FrameType;

inline constexpr FrameType kCall{1};  // a collective is called: its descriptor, weight and note
// The data was written into the receiver's shared memory, but for its edges, which are the payload.
inline constexpr FrameType kStored{5};
inline constexpr FrameType kAnnounce{6};     // a send, with its payload when it is short
inline constexpr FrameType kMatched{7};      // the send has met its recv
inline constexpr FrameType kMessage{8};      // a piece of a long send
inline constexpr FrameType kPosted{18};      // a short collective, called and carried out in one
inline constexpr FrameType kInvitation{19};  // data that an engine needs from its first rank
inline constexpr FrameType kAssent{23};      // several ranks have called the same collective
inline constexpr FrameType kWanted{25};  // a recv waits for a send that its rank has not heard of

}  // namespace frame

inline constexpr auto kCollectiveFrames = std::to_array<transport::FrameKind>({
    {frame::kCall, "call", transport::kLongestControlPayload},
    {frame::kStored, "stored", transport::kLongestControlPayload},
    {frame::kAnnounce, "announce", transport::kLongestControlPayload},
    // The send was over for its caller where its payload was carried: its group may have ended.
    {frame::kMatched, "matched", 0, false},
    {frame::kMessage, "message", transport::kLongestPayload},
    {frame::kPosted, "posted", transport::kLongestControlPayload},
    {frame::kInvitation, "invitation", transport::kLongestControlPayload},
    {frame::kAssent, "assent", transport::kLongestControlPayload},
    {frame::kWanted, "wanted", 0},
});

}  // namespace paceline::collective
