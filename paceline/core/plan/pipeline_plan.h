// A plan of a pipeline: which layers stand where, how many micro-batches a step has, and the
// forecast of its time and of each rank's memory, beside those of pure data parallelism.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/plan/layer_cost.h"
#include "paceline/core/plan/pipeline_form.h"
#include "paceline/core/plan/rank_memory.h"
#include "paceline/core/plan/recompute_segments.h"
#include "paceline/core/plan/stage_partition.h"

namespace paceline::plan {

struct PlanQuestion {
  std::vector<LayerCost> layers;  // for a batch of `profiled_batch` samples
  double profiled_batch = 1;
  int batch = 1;  // samples of a step of all ranks together
  int ranks = 1;
  double start = 0;                 // seconds to start a micro-batch on a stage
  double bytes_per_second = 125e6;  // of each rank's link, each way
  double latency = 0;               // seconds of a message
  PipelineForm form = {};
  Recompute recompute = {};
  double optimizer_slots = 0;
  bool has_masters = false;
  int zero_stage = 0;
  double memory_limit = std::numeric_limits<double>::infinity();  // bytes of a rank
  int micro_batches = 0;          // 0: chosen (micro_batch_choice.h)
  StagePartition partition = {};  // empty: chosen (partitioner.h)
};

// A rank, or each of the ranks that hold the same layers.
struct PlannedStage {
  std::vector<Stage> chunks;  // one, under an interleaved schedule several
  StageTimes times;           // of a micro-batch
  double live_micro_batches = 0;
  int weight_versions = 1;
  Recompute recompute = {};  // resolved, if it was automatic
  RankMemory memory = {};
};

struct PipelinePlan {
  PipelineForm form = {};
  int copies = 1;  // pipelines side by side: data parallelism
  StagePartition partition = {};
  int micro_batches = 1;  // of each pipeline
  double seconds = 0;     // of a step, of a batch when an asynchronous pipeline is full
  double idle_share = 0;  // of the time of all ranks
  bool fits = true;       // into the limit of memory
  std::string why;        // the choice of micro_batches; empty: it was given, or there is none
  std::vector<PlannedStage> stages = {};

  int ranks() const { return copies * partition.ranks() / form.chunks; }
  double most_memory() const;  // of a rank, bytes
  // "dp=4", "pp=2,dp=2"; a partition with replicas as its text.
  std::string layout() const;
};

struct PlanReport {
  PipelinePlan data_parallel;
  // Pipelines of all numbers of stages that the ranks can be divided into, the quickest first, and
  // those that do not fit last. Under pipedream there is one: the partitioner's.
  std::vector<PipelinePlan> pipelines;
  std::vector<std::string> left_out;  // sentences: numbers of stages that cannot be, and why

  // The quickest of all that fit; data parallelism if no pipeline is quicker.
  const PipelinePlan& best() const;
};

// The forecast takes transfers and the sums of gradients to run beside the computation; only what
// the last backward pass of a step does not hide of a sum is added. A failure (misuse) names what
// is wrong with the question, such as a given number of micro-batches that no pipeline takes; or
// that nothing fits, and the least memory that would do.
Result<PlanReport> plan_pipeline(const PlanQuestion& question);

}  // namespace paceline::plan
