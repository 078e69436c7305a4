// Stages that lie on different ranks, with one micro-batch in flight: inter-operator parallelism
// alone. It is the baseline of the pipelines.
//
//   rank 0  F0      B0  F1      B1
//   rank 1    F0  B0      F1  B1
#include "paceline/core/pipeline/order/schedule_catalogue.h"

namespace paceline::pipeline::catalogue {

Schedule sequential() {
  return {.name = "sequential",
          .summary = "one micro-batch in flight: the stages work one after the other",
          .reference = "",
          .make =
              [](int ranks, int micro_batches, const Settings&) {
                Order order{.ranks = {}, .stages = ranks, .micro_batches = micro_batches};
                for (int rank = 0; rank < ranks; ++rank) {
                  auto& own = order.ranks.emplace_back();
                  for (int i = 0; i < micro_batches; ++i) {
                    own.push_back({Kind::forward, rank, i});
                    own.push_back({Kind::backward, rank, i});
                  }
                }
                return order;
              },
          .makespan = [](int ranks, int micro_batches, const StageSeconds& seconds,
                         const Settings&) { return ranks * micro_batches * seconds.sum(); },
          .live = [](int, int, int, const Settings&) { return 1; }};
}

}  // namespace paceline::pipeline::catalogue
