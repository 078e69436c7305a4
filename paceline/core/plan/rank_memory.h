// The memory of a rank, by part, computed before a run: what its layers, their optimizer and their
// activations take.
//
// The parts of weights follow Rajbhandari et al., ZeRO, SC 2020 (figure 1); those of activations
// the closed forms of the schedules (pipeline_form.h).
#pragma once

#include "paceline/core/plan/layer_cost.h"
#include "paceline/core/plan/recompute_segments.h"

namespace paceline::plan {

// The layers' bytes are those of a training in full precision; those that depend on the batch are
// of a whole profiled batch, of which a micro-batch is the part `micro_share`.
struct MemoryQuestion {
  LayerCosts layers = {};      // of this rank
  double input_bytes = 0;      // of the first layer, for a profiled batch
  double optimizer_slots = 0;  // numbers that the optimizer keeps for each parameter: Adam 2
  bool has_masters = false;    // o2: weights and gradients of 16 bits, and masters of the full type
  int zero_stage = 0;       // 1 divides optimizer and masters among data_ranks, 2 gradients, 3 all
  int data_ranks = 1;       // that hold the same layers
  int weight_versions = 1;  // the newest among them
  double live_micro_batches = 1;
  double micro_share = 1;
  double message_bytes = 0;  // of the largest message of a profiled batch, to or from another rank
  // All micro-batches are alive before the first gradient is there, as under `gpipe`.
  bool is_live_before_gradients = false;
  Recompute recompute = {};
};

// Bytes.
struct RankMemory {
  double weights = 0, gradients = 0, optimizer = 0, masters = 0;
  double versions = 0;     // of the weights, but for the newest
  double activations = 0;  // at the peak, with those that are recomputed
  double buckets = 0;      // gradients on their way, if there are other data ranks
  double messages = 0;     // activations and their gradients that are on their way
  double reused = 0;       // of these: gradients in memory that activations have given back
  double total() const {
    return weights + gradients + optimizer + masters + versions + activations + buckets + messages -
           reused;
  }
};

// A bucket of 1 MiB and one of 25 MiB are on their way, or all gradients if these are fewer.
inline constexpr double kBucketBytes = 26.0 * (1 << 20);

// One message is received ahead of its need while another is sent.
inline constexpr double kMessagesInFlight = 2;

// The automatic recomputation is that of least peak. THROWS Error (misuse): a number out of range.
RankMemory rank_memory(const MemoryQuestion& question);

}  // namespace paceline::plan
