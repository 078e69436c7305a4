// All forwards, then all backwards. Backwards ascend, so that every schedule adds a weight's
// gradients in the same order; time and memory are those of backwards that descend.
//
//   rank 0  F0 F1 F2             B0 B1 B2
//   rank 1     F0 F1 F2       B0 B1 B2
//
// Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism,
// NeurIPS 2019.
#include "paceline/core/pipeline/order/schedule_catalogue.h"

namespace paceline::pipeline::catalogue {

Schedule gpipe() {
  return {.name = "gpipe",
          .summary = "all forwards, then all backwards",
          .reference = "Huang and others, NeurIPS 2019",
          .make =
              [](int ranks, int micro_batches, const Settings&) {
                Order order{.ranks = {}, .stages = ranks, .micro_batches = micro_batches};
                for (int rank = 0; rank < ranks; ++rank) {
                  auto& own = order.ranks.emplace_back();
                  for (const Kind kind : {Kind::forward, Kind::backward})
                    for (int i = 0; i < micro_batches; ++i) own.push_back({kind, rank, i});
                }
                return order;
              },
          .makespan = [](int ranks, int micro_batches, const StageSeconds& seconds,
                         const Settings&) { return (micro_batches + ranks - 1) * seconds.sum(); },
          .live = [](int, int, int micro_batches, const Settings&) { return micro_batches; }};
}

}  // namespace paceline::pipeline::catalogue
