// The compression state of one rank that outlives a step, as a value and as the bytes of a
// checkpoint: residuals, momenta and factors, tensor by tensor, so that they outlive the plan by
// which the tensors travelled (docs/compression/formats.md; state_transfer.h).
#pragma once

#include <string>
#include <vector>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

// The values that an averaging keeps under one name.
struct SavedValues {
  std::uint32_t tensor = 0;           // its number in the model
  std::size_t begin = 0;              // first element, in the tensor, of the part that was averaged
  std::size_t rows = 0, columns = 0;  // the part's shape, as in Part
  std::string compression;            // text with all settings
  StateView::Sharing sharing = StateView::Sharing::own;
  std::string name;  // "residual"
  Bytes values;      // f32

  std::size_t elements() const { return rows * columns; }
};

struct SavedState {
  int rank = 0, ranks = 1;
  std::uint32_t step = 0;             // the next one
  std::vector<std::size_t> elements;  // elements of each tensor of the model
  std::vector<SavedValues> values;
};

std::vector<std::byte> bytes_of(const SavedState& state);

// The result holds views into `bytes`. A failure (io) says what is wrong with them.
Result<SavedState> saved_state_of(Bytes bytes);

}  // namespace paceline::compress
