// One forward, one backward without a flush: the pipeline fills once, and every mini-batch steps
// each stage. A mini-batch's backward uses the weights of its forward, of which the stage keeps a
// version; with sync=vertical all stages use the same version for it.
//
// Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, SOSP 2019.
#include <algorithm>

#include "paceline/core/pipeline/order/schedule_catalogue.h"
#include "paceline/core/pipeline/order/turns.h"

namespace paceline::pipeline::catalogue {

Schedule pipedream() {
  return {.name = "pipedream",
          .summary = "1f1b over all mini-batches without a flush; versions of the weights",
          .reference = "Narayanan and others, SOSP 2019",
          .settings = {{.name = "sync",
                        .meaning = "stash: each stage uses its newest weights for a forward; "
                                   "vertical: those of the first stage's version",
                        .whole = true,
                        .words = {"stash", "vertical"}}},
          .versions =
              [](const Settings& settings) {
                return settings.on("sync") ? VersionSync::vertical : VersionSync::stash;
              },
          .make = [](int ranks, int batches,
                     const Settings&) { return order_of_turns(ranks, batches); },
          .makespan = [](int ranks, int batches, const StageSeconds& seconds,
                         const Settings&) { return (batches + ranks - 1) * seconds.sum(); },
          .live = [](int rank, int ranks, int batches,
                     const Settings&) { return std::min(ranks - rank, batches); }};
}

}  // namespace paceline::pipeline::catalogue
