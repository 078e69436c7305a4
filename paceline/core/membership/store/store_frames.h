// The frames between a worker and the store (docs/wire.md).
#pragma once

#include <array>

#include "paceline/core/transport/frame/frame_kinds.h"

namespace paceline::membership {

namespace frame {

using transport::FrameType;

inline constexpr FrameType kStoreSet{12};    // {key, value}
inline constexpr FrameType kStoreGet{13};    // {key}; answered when the key is there
inline constexpr FrameType kStoreValue{14};  // the answer
inline constexpr FrameType kVerdict{15};     // launcher to worker: the run has failed, and why
inline constexpr FrameType kReport{16};      // worker to launcher: why this rank gives up
inline constexpr FrameType kSaved{24};  // worker to launcher: a checkpoint is committed: {step}
// If servers are replicated, the launcher hears from a server what it keeps, tells all members which
// servers have what, and hears of each member that it is linked to all others. Rooms above give the
// bytes of the first two their meaning.
inline constexpr FrameType kServerReport{28};
inline constexpr FrameType kServerMap{29};
inline constexpr FrameType kLinked{30};

}  // namespace frame

inline constexpr std::size_t kLongestServerWord = std::size_t{64} << 10;  // a report or a map

inline constexpr auto kStoreFrames = std::to_array<transport::FrameKind>({
    {frame::kStoreSet, "store_set", transport::kLongestControlPayload},
    {frame::kStoreGet, "store_get", transport::kLongestControlPayload},
    {frame::kStoreValue, "store_value", transport::kLongestControlPayload},
    {frame::kVerdict, "verdict", transport::kLongestControlPayload},
    {frame::kReport, "report", transport::kLongestControlPayload},
    {frame::kSaved, "saved", transport::kLongestControlPayload},
    {frame::kServerReport, "server_report", kLongestServerWord},
    {frame::kServerMap, "server_map", kLongestServerWord},
    {frame::kLinked, "linked", 0},
});

// All that may come on a connection to the store, at either end.
inline constexpr transport::FrameKinds kStoreKinds(kStoreFrames);

}  // namespace paceline::membership
