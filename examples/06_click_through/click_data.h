// The lines that the model learns from, and the tensors that it sees of them.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "../support/click_log.h"
#include "options.h"

namespace click_through {

inline constexpr auto kNumbers = static_cast<std::int64_t>(examples::kClickNumbers);
inline constexpr auto kCategories = static_cast<std::int64_t>(examples::kClickCategories);

struct ClickData {
  std::vector<examples::ClickLine> training, held_out;
};

// THROWS paceline::Error (misuse): a file that cannot be read, or a line that is wrong; too few of
// them, or held-out ones that are all clicked, or none of which is.
ClickData load(const RunOptions& options);

// Writes drawn lines into the file --generate. THROWS paceline::Error (io).
void write_lines(const RunOptions& options);

struct ClickBatch {
  at::Tensor ids;      // [lines, 26], i64: of a category and its column, 48 bits
  at::Tensor numbers;  // [lines, 13], f32: their logarithms; 0 where one is not known
  at::Tensor clicked;  // [lines], f32: 0 or 1

  std::int64_t size() const { return clicked.size(0); }
};

// The lines with these indices.
ClickBatch batch_of(const std::vector<examples::ClickLine>& lines, const at::Tensor& indices);

}  // namespace click_through
