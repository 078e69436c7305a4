#include "paceline/core/plan/rank_memory.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::plan {
namespace {

// One micro-batch is in its backward pass, and the others keep what they need for theirs.
double activations_of(const MemoryQuestion& question, double live) {
  const Recompute recompute =
      question.recompute.every == Recompute::kAutomatic
          ? best_recompute(question.layers, question.input_bytes, question.live_micro_batches)
          : question.recompute;
  return question.micro_share *
         ((live - 1) * kept_bytes(question.layers, question.input_bytes, recompute) +
          peak_bytes(question.layers, question.input_bytes, recompute));
}

// If all micro-batches are alive before the first gradient is there, the gradients of the first
// backward pass come while its activations go. Memory of a DataParallel's gradients is always
// there.
double reused_by_gradients(const MemoryQuestion& question, const RankMemory& memory) {
  if (!question.is_live_before_gradients || question.data_ranks > 1) return 0;
  const double later = activations_of(question, std::max(question.live_micro_batches - 1, 0.0));
  return std::min(memory.gradients, memory.activations - later);
}

}  // namespace

RankMemory rank_memory(const MemoryQuestion& question) {
  PACELINE_CHECK(question.zero_stage >= 0 && question.zero_stage <= 3,
                 "zero_stage {}: give 0, 1, 2 or 3", question.zero_stage);
  PACELINE_CHECK(
      question.data_ranks >= 1 && question.weight_versions >= 1 && question.live_micro_batches > 0,
      "{} data ranks, {} versions of the weights and {} live micro-batches: give 1 or "
      "more",
      question.data_ranks, question.weight_versions, question.live_micro_batches);
  const double full = weights_of(question.layers);
  const double own = question.has_masters ? full / 2 : full;
  const auto among = [&](int stage) {
    return question.zero_stage >= stage ? static_cast<double>(question.data_ranks) : 1;
  };
  RankMemory memory{.weights = own / among(3), .gradients = own / among(2)};
  memory.optimizer = question.optimizer_slots * full / among(1);
  memory.masters = question.has_masters ? full / among(1) : 0;
  memory.versions = (question.weight_versions - 1) * memory.weights;
  memory.activations = activations_of(question, question.live_micro_batches);
  memory.buckets = question.data_ranks > 1 ? std::min(own, kBucketBytes) : 0;
  memory.messages = kMessagesInFlight * question.micro_share * question.message_bytes;
  memory.reused = reused_by_gradients(question, memory);
  return memory;
}

}  // namespace paceline::plan
