// pipedream with two versions of the weights: the gradients of a batch's micro-batches are added,
// and make one new version; batch t computes on version t - 1, on every stage and both ways.
//
// Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021.
#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/pipeline/order/schedule_catalogue.h"
#include "paceline/core/pipeline/order/turns.h"

namespace paceline::pipeline::catalogue {

Schedule pipedream_2bw() {
  return {
      .name = "pipedream_2bw",
      .summary = "1f1b over all batches without a flush; two versions of the weights",
      .reference = "Narayanan and others, ICML 2021",
      .versions = [](const Settings&) { return VersionSync::double_buffered; },
      .refuses = [](int ranks, int micro_batches) -> std::optional<std::string> {
        if (micro_batches >= ranks - 1) return std::nullopt;
        return fmt::format(
            "pipedream_2bw keeps two versions of the weights, for which a batch needs at least "
            "{} micro-batches on {} ranks, and it has {}: give at least {}, or choose pipedream",
            ranks - 1, ranks, micro_batches, ranks - 1);
      },
      .make = [](int ranks, int micro_batches,
                 const Settings&) { return order_of_turns(ranks, micro_batches); },
      .makespan = [](int ranks, int micro_batches, const StageSeconds& seconds,
                     const Settings&) { return (micro_batches + ranks - 1) * seconds.sum(); },
      .live = [](int rank, int ranks, int micro_batches,
                 const Settings&) { return std::min(ranks - rank, micro_batches); }};
}

}  // namespace paceline::pipeline::catalogue
