// Moves the state of averagings into a checkpoint and out of it: onto the same parts of tensors, or
// onto parts that are cut elsewhere.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/compress/state/saved_state.h"

namespace paceline::compress {

// A part of a tensor and the state of its averaging. An averaging without state has no views.
struct LivePart {
  std::uint32_t tensor = 0;  // its number in the model
  std::size_t begin = 0;     // first element, in the tensor
  AveragedTensor part;
  std::string_view compression;  // text with all settings
  std::vector<StateView> views;
};

// Views into the parts' state.
std::vector<SavedValues> saved_values_of(std::span<const LivePart> parts);

// Fails unless the state belongs to this rank and to a model of such tensors. A state without
// values is accepted from any rank.
Result<> check_fits(const SavedState& state, int rank, int ranks,
                    std::span<const std::size_t> elements);

// Fails unless all values belong to this compression, given with all settings.
Result<> check_is_of(const SavedState& state, std::string_view compression);

// Sets all state of the parts to the saved values, or to 0. A part that was saved gets its very
// bits. If parts are cut elsewhere, each element gets its own values: the sum of withheld means
// stays the same, since an owner's residual becomes a residual of the owner. A factor that has
// other columns now keeps those that both have. A factor of another matrix, and the state of a part
// that is no longer compressed, are left behind. Fails, and changes nothing, if a part has another
// compression.
Result<> restore(const SavedState& state, std::span<const LivePart> parts);

// Converts the state to another number of ranks, after a restart on fewer or more: returns the
// state of `rank` of `ranks`, made from the states of all former ranks. The mean over the ranks
// stays (own): results are means, so if 4 ranks took the sum of 8 ranks' residuals, each would
// count twice. Chunks are cut again, never scaled.
std::vector<float> resharded(StateView::Sharing sharing, std::span<const std::vector<float>> former,
                             int ranks, int rank);

// The same for whole states as bytes (saved_state.h): those of all former ranks, in rank order.
// Fails (io) if the former ranks kept different things, or if the bytes of one are damaged.
Result<std::vector<std::byte>> resharded(std::span<const std::vector<std::byte>> former, int ranks,
                                         int rank);

}  // namespace paceline::compress
