// The state of averagings on its way into a checkpoint, and out of it: onto the same parts of
// tensors, or onto parts that are cut elsewhere.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "paceline/core/compress/saved_state.h"

namespace paceline::compress {

// A part of a tensor, and what its averaging keeps. One that keeps nothing has no views.
struct LivePart {
  std::uint32_t tensor = 0;  // its number in the model
  std::size_t begin = 0;     // in the tensor
  Part part;
  std::string_view compression;  // with all settings
  std::vector<StateView> views;
};

// Views into the parts' state.
std::vector<SavedValues> saved_values_of(std::span<const LivePart> parts);

// Fails unless the state is that of this rank, of a model of such tensors. On other ranks only a
// state without values goes on.
Result<> check_fits(const SavedState& state, int rank, int ranks,
                    std::span<const std::size_t> elements);

// Fails unless all values are of this compression, said with all settings.
Result<> check_is_of(const SavedState& state, std::string_view compression);

// All that the parts keep becomes what was saved, or 0. A part that was saved gets its very bits.
// Of parts that are cut elsewhere each element gets its own: what is held back of means stays the
// same in sum, an owner's residual becoming a residual of the owner. Of a factor that has other
// columns now those that both have are kept. A factor of another matrix, and what belongs to a part
// that is not compressed any more, is left behind. Fails, and changes nothing, where a part has
// another compression.
// REQUIRES: check_fits().
Result<> restore(const SavedState& state, std::span<const LivePart> parts);

}  // namespace paceline::compress
