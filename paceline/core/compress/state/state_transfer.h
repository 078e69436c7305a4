// Moves the state of averagings into a checkpoint and out of it: onto the same parts of tensors, or
// onto parts that are cut elsewhere.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "paceline/core/compress/state/saved_state.h"

namespace paceline::compress {

// A part of a tensor and the state of its averaging. An averaging without state has no views.
struct LivePart {
  std::uint32_t tensor = 0;  // its number in the model
  std::size_t begin = 0;     // first element, in the tensor
  Part part;
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

}  // namespace paceline::compress
