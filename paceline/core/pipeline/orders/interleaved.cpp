// Each rank has V chunks of the model, so that a micro-batch passes each rank V times and the
// pipeline fills in a V-th of the time; it sends V times as many messages.
//
// Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM, SC 2021.
#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/pipeline/order/schedule_catalogue.h"

namespace paceline::pipeline::catalogue {
namespace {

// The k-th forward or backward of a rank: P micro-batches pass a chunk before the next chunk's
// turn.
struct Slots {
  int ranks, chunks, rank;

  Operation operation(Kind kind, int k) const {
    const int turn = k % (ranks * chunks) / ranks;
    const int chunk = kind == Kind::forward ? turn : chunks - 1 - turn;
    return {kind, chunk * ranks + rank, k / (ranks * chunks) * ranks + k % ranks};
  }
};

int warm_up_of(const Slots& slots, int micro_batches) {
  const int all = micro_batches * slots.chunks;
  if (micro_batches == slots.ranks) return all;
  return std::min(2 * (slots.ranks - slots.rank - 1) + (slots.chunks - 1) * slots.ranks, all);
}

std::vector<Operation> operations_of(const Slots& slots, int micro_batches) {
  const int all = micro_batches * slots.chunks, warm_up = warm_up_of(slots, micro_batches);
  std::vector<Operation> own;
  for (int k = 0; k < warm_up; ++k) own.push_back(slots.operation(Kind::forward, k));
  for (int k = 0; k < all; ++k) {
    if (k + warm_up < all) own.push_back(slots.operation(Kind::forward, k + warm_up));
    own.push_back(slots.operation(Kind::backward, k));
  }
  return own;
}

std::optional<std::string> why_not_interleaved(int ranks, int micro_batches) {
  if (micro_batches % ranks == 0) return std::nullopt;
  return fmt::format(
      "interleaved sends micro-batches in groups of as many as there are ranks, and {} "
      "micro-batches "
      "are no multiple of {} ranks: give {} or {}, or choose 1f1b",
      micro_batches, ranks, std::max(1, micro_batches / ranks) * ranks,
      (micro_batches / ranks + 1) * ranks);
}

}  // namespace

Schedule interleaved() {
  return {
      .name = "interleaved",
      .summary = "several chunks of the model on each rank: fills sooner, sends more",
      .reference = "Narayanan and others, SC 2021",
      .settings = {{.name = "chunks",
                    .standard = 2,
                    .least = 2,
                    .most = 64,
                    .meaning = "stages of each rank",
                    .whole = true}},
      .chunks = [](const Settings& settings) { return settings.as<int>("chunks"); },
      .refuses = why_not_interleaved,
      .make =
          [](int ranks, int micro_batches, const Settings& settings) {
            const int chunks = settings.as<int>("chunks");
            Order order{.ranks = {}, .stages = ranks * chunks, .micro_batches = micro_batches};
            for (int rank = 0; rank < ranks; ++rank)
              order.ranks.push_back(operations_of({ranks, chunks, rank}, micro_batches));
            return order;
          },
      .makespan =
          [](int ranks, int micro_batches, const StageSeconds& seconds, const Settings& settings) {
            return (micro_batches + (ranks - 1) / settings["chunks"]) * seconds.sum();
          },
      .live =
          [](int rank, int ranks, int micro_batches, const Settings& settings) {
            const int chunks = settings.as<int>("chunks"), all = chunks * micro_batches;
            if (micro_batches == ranks) return all;
            return std::min(2 * (ranks - rank - 1) + (chunks - 1) * ranks + 1, all);
          }};
}

}  // namespace paceline::pipeline::catalogue
