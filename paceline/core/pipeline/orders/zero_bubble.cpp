// ZB-H1: the gradients of weights are computed where the pipeline would wait. Nobody waits for
// them, so they fill the drain; as in 1f1b no rank holds more activations than there are stages.
//
//   rank 0  F0 F1    B0 W0 F2 B1 W1    B2 W2
//
// Rank s takes min(P - s - 1, m) forwards; then, for each k, the next forward, backward k and, once
// k has reached s, the next weight gradient; what is left follows in order. This static rule gives
// the paper's time for m >= P.
// Qi, Wan, Huang, Lin, Zero Bubble Pipeline Parallelism, ICLR 2024.
#include <algorithm>

#include "paceline/core/pipeline/order/schedule_catalogue.h"

namespace paceline::pipeline::catalogue {

Schedule zero_bubble() {
  return {
      .name = "zero_bubble",
      .summary = "backwards give the input's gradient; those of weights fill the gaps",
      .reference = "Qi and others, ICLR 2024 (ZB-H1)",
      .splits_backward = true,
      .make =
          [](int ranks, int micro_batches, const Settings&) {
            Order order{.ranks = {},
                        .stages = ranks,
                        .micro_batches = micro_batches,
                        .split_backward = true};
            for (int rank = 0; rank < ranks; ++rank) {
              const int warm_up = std::min(ranks - rank - 1, micro_batches);
              int done = 0;
              auto& own = order.ranks.emplace_back();
              for (int i = 0; i < warm_up; ++i) own.push_back({Kind::forward, rank, i});
              for (int i = 0; i < micro_batches; ++i) {
                if (i + warm_up < micro_batches) own.push_back({Kind::forward, rank, i + warm_up});
                own.push_back({Kind::backward, rank, i});
                if (i >= rank) own.push_back({Kind::weight, rank, done++});
              }
              while (done < micro_batches) own.push_back({Kind::weight, rank, done++});
            }
            return order;
          },
      .makespan =
          [](int ranks, int micro_batches, const StageSeconds& seconds, const Settings&) {
            const double shortest = std::min({seconds.forward, seconds.backward, seconds.weight});
            return micro_batches * seconds.sum() +
                   (ranks - 1) * (seconds.forward + seconds.backward) -
                   (std::min(ranks, micro_batches) - 1) * shortest;
          },
      .live = [](int, int ranks, int micro_batches,
                 const Settings&) { return std::min(ranks, micro_batches); }};
}

}  // namespace paceline::pipeline::catalogue
