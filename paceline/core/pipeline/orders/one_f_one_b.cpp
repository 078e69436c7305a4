// One forward, one backward: as fast as gpipe, with no more activations than stages.
//
//   rank 0  F0 F1       B0 F2    B1    B2
//   rank 1     F0 B0 F1 B1    F2 B2
//
// Narayanan et al., SOSP 2019; with a flush: Narayanan et al., Memory-Efficient Pipeline-Parallel
// DNN Training, ICML 2021.
#include <algorithm>

#include "paceline/core/pipeline/order/schedule_catalogue.h"
#include "paceline/core/pipeline/order/turns.h"

namespace paceline::pipeline::catalogue {

Schedule one_f_one_b() {
  return {.name = "1f1b",
          .summary = "after a warm-up one forward, one backward; few activations",
          .reference = "Narayanan and others, SOSP 2019 and ICML 2021",
          .make = [](int ranks, int micro_batches,
                     const Settings&) { return order_of_turns(ranks, micro_batches); },
          .makespan = [](int ranks, int micro_batches, const StageSeconds& seconds,
                         const Settings&) { return (micro_batches + ranks - 1) * seconds.sum(); },
          .live = [](int rank, int ranks, int micro_batches,
                     const Settings&) { return std::min(ranks - rank, micro_batches); }};
}

}  // namespace paceline::pipeline::catalogue
