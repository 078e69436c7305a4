// A pipeline before its number of micro-batches is chosen: its ranks, and the forecast of its time
// and memory with any number.
#pragma once

#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/plan/pipeline_plan.h"

namespace paceline::plan {

// The layers of a rank and the bytes that it hands on, for a profiled batch.
struct RankLayers {
  std::vector<Stage> chunks;
  std::vector<LayerCost> layers;
  double input_bytes = 0, output_bytes = 0;
  double message_bytes = 0;  // of the largest cut to another rank
};

// A pipeline whose micro-batches are not yet chosen. The question must outlive it.
struct PipelineDraft {
  const PlanQuestion& question;
  const PipelineForm form;
  const StagePartition partition;
  const int copies;
  const std::vector<RankLayers> ranks;

  // A pipeline that recomputes has another one.
  PipelineForm computed_form() const {
    return question.recompute.every == Recompute::kNone ? form : recomputing(form);
  }
  bool splits_backward() const { return computed_form().kind == PipelineKind::zero_bubble; }
  int stages() const { return static_cast<int>(ranks.size()); }
  // The samples of the pipeline that has most of them.
  int batch() const { return (question.batch + copies - 1) / copies; }
  double share(int micro_batches) const {
    return batch() / question.profiled_batch / micro_batches;
  }
  std::vector<int> replicas() const {
    std::vector<int> counts;
    for (const RankLayers& rank : ranks) counts.push_back(rank.chunks.front().replicas);
    return counts;
  }
};

// The partition has `form.chunks` parts for each stage.
PipelineDraft draft_of(const PlanQuestion& question, const PipelineForm& form,
                       StagePartition partition, int copies);

// The plan with so many micro-batches, whether it fits or not. REQUIRES: the form allows them.
PipelinePlan planned(const PipelineDraft& draft, int micro_batches);

// The plan with the micro-batches that the question gives, else with the best number that fits; if
// none fits, with the one that takes the least memory. The failure (misuse) names the number that
// the form does not allow, or says that no divisor of the batch is allowed.
Result<PipelinePlan> finished(const PipelineDraft& draft);

}  // namespace paceline::plan
