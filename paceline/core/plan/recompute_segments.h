// Recomputation of activations: of every K layers only the input is kept, and the rest is computed
// again when the backward pass comes to them. Chen et al., Training Deep Nets with Sublinear Memory
// Cost, arXiv 1604.06174.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/base/result.h"
#include "paceline/core/plan/layer_cost.h"

namespace paceline::plan {

struct Recompute {
  static constexpr int kNone = 0;        // everything is kept
  static constexpr int kAutomatic = -1;  // the segments of least peak
  int every = kNone;                     // layers of a segment; 1: "full"

  // "none", "full", "every:K", "auto". A failure (misuse) lists them.
  static Result<Recompute> parse(std::string_view text);
  std::string text() const;
  bool operator==(const Recompute&) const = default;
};

// The bytes that one micro-batch keeps between its passes: all that its layers save, or the inputs
// of the segments. `input_bytes`: the input of the first layer. REQUIRES: it is not automatic.
double kept_bytes(LayerCosts layers, double input_bytes, Recompute recompute);

// The most bytes alive in the backward pass of one micro-batch whose kept ones are there: segments
// are computed again from the last to the first, and each frees what it has kept. For n layers
// that save s each, with inputs of b, and c = ceil(n / K) segments, the last of l layers:
// max(c b + l s, (c - 1) b + K s). REQUIRES: it is not automatic.
double peak_bytes(LayerCosts layers, double input_bytes, Recompute recompute);

// The length of segments for which the peak is least while so many micro-batches are alive, the
// shortest of several: near sqrt(n b / s) for one. Lengths change no time, as every layer is
// computed once more for each.
Recompute best_recompute(LayerCosts layers, double input_bytes, double live_micro_batches = 1);

}  // namespace paceline::plan
