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

}  // namespace frame

inline constexpr auto kStoreFrames = std::to_array<transport::FrameKind>({
    {frame::kStoreSet, "store_set", transport::kLongestControlPayload},
    {frame::kStoreGet, "store_get", transport::kLongestControlPayload},
    {frame::kStoreValue, "store_value", transport::kLongestControlPayload},
    {frame::kVerdict, "verdict", transport::kLongestControlPayload},
    {frame::kReport, "report", transport::kLongestControlPayload},
    {frame::kSaved, "saved", transport::kLongestControlPayload},
});

// All that may come on a connection to the store, at either end.
inline constexpr transport::FrameKinds kStoreKinds(kStoreFrames);

}  // namespace paceline::membership
