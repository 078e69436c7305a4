#include "paceline/core/plan/pipeline_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/plan/partitioner.h"
#include "paceline/core/plan/pipeline_draft.h"

namespace paceline::plan {
namespace {

Failure wrong_plan(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

// The whole model on each rank. The form does not matter there: one stage is no pipeline.
Result<PipelinePlan> data_parallel_plan(const PlanQuestion& question) {
  PlanQuestion alone = question;
  alone.micro_batches = 0;
  const StagePartition whole{{{0, static_cast<int>(question.layers.size()) - 1, 1}}};
  return finished(draft_of(alone, {.kind = PipelineKind::one_f_one_b}, whole, question.ranks));
}

Result<StagePartition> partition_of(const PlanQuestion& question, int stages) {
  if (!question.partition.stages.empty()) return question.partition;
  const auto cut =
      balanced_cut(question.layers, stages * question.form.chunks, question.bytes_per_second);
  if (!cut) return cut.error();
  return cut.value().partition;
}

Result<PipelinePlan> straight_plan(const PlanQuestion& question, int stages) {
  const auto partition = partition_of(question, stages);
  if (!partition) return partition.error();
  return finished(draft_of(question, question.form, partition.value(), question.ranks / stages));
}

// The partitioner decides on stages and replicas together.
Result<PipelinePlan> replicated_plan(const PlanQuestion& question) {
  StagePartition partition = question.partition;
  if (partition.stages.empty()) {
    std::vector<LayerCost> layers = question.layers;
    const double share = question.batch / question.profiled_batch;
    for (LayerCost& layer : layers) {
      layer.forward = layer.forward_of(share);
      layer.backward = layer.backward_of(share);
      layer.output_bytes *= share;
    }
    const auto choice = best_partition(
        layers, {{.units = question.ranks, .bytes_per_second = question.bytes_per_second}});
    if (!choice) return choice.error();
    partition = choice.value().partition;
  }
  return finished(draft_of(question, question.form, partition, 1));
}

// The numbers of stages to try.
std::vector<int> stage_counts(const PlanQuestion& question) {
  const int given = question.partition.size();
  if (given > 0) return {given / question.form.chunks};
  if (question.form.kind == PipelineKind::pipedream_2bw) return {question.ranks};
  std::vector<int> counts;
  for (int stages = 2; stages <= question.ranks; ++stages)
    if (question.ranks % stages == 0) counts.push_back(stages);
  return counts;
}

std::string fault_of_partition(const PlanQuestion& question) {
  const StagePartition& partition = question.partition;
  const int chunks = question.form.chunks;
  if (partition.stages.empty()) return {};
  if (question.form.kind == PipelineKind::pipedream)
    return partition.ranks() == question.ranks
               ? std::string()
               : fmt::format(
                     "the partition \"{}\" is for {} ranks, and there are {}: let its "
                     "replicas sum to {}",
                     partition.text(), partition.ranks(), question.ranks, question.ranks);
  if (!partition.is_straight())
    return fmt::format(
        "the partition \"{}\" has replicas, which pipedream alone runs: leave them "
        "out, and let --ranks be a multiple of its stages",
        partition.text());
  if (partition.size() % chunks != 0)
    return fmt::format("{} parts cannot be {} chunks on each rank: give a multiple of {} parts",
                       partition.size(), chunks, chunks);
  if (question.ranks % (partition.size() / chunks) != 0)
    return fmt::format(
        "{} ranks are no whole number of pipelines of {} stages: give a multiple "
        "of {} ranks",
        question.ranks, partition.size() / chunks, partition.size() / chunks);
  return {};
}

std::string fault_of_question(const PlanQuestion& question) {
  if (question.layers.empty()) return "there are no layers: give a model with 1 or more";
  if (question.ranks < 1 || question.batch < question.ranks)
    return fmt::format("{} samples for {} ranks: give each rank one sample or more", question.batch,
                       question.ranks);
  if (!(question.profiled_batch > 0) || !(question.bytes_per_second > 0) ||
      !(question.latency >= 0) || !(question.start >= 0))
    return fmt::format(
        "a profile of {} samples, links of {} bytes a second with {} s a message, "
        "and {} s to start a micro-batch: give numbers above 0",
        question.profiled_batch, question.bytes_per_second, question.latency, question.start);
  if (question.form.kind == PipelineKind::pipedream && question.micro_batches > 1)
    return fmt::format(
        "pipedream passes whole batches from stage to stage, and {} micro-batches "
        "are asked for: leave them out, or plan pipedream_2bw",
        question.micro_batches);
  return fault_of_partition(question);
}

Result<PlanReport> checked_report(PlanReport report, const PlanQuestion& question) {
  std::ranges::stable_sort(report.pipelines, [](const PipelinePlan& a, const PipelinePlan& b) {
    return std::pair(!a.fits, a.seconds) < std::pair(!b.fits, b.seconds);
  });
  if (report.best().fits) return report;
  const PipelinePlan* least = &report.data_parallel;
  for (const PipelinePlan& plan : report.pipelines)
    if (plan.most_memory() < least->most_memory()) least = &plan;
  constexpr double kMega = 1 << 20;
  return wrong_plan(fmt::format(
      "nothing fits into {:.1f} MiB a rank: {} with {} micro-batches takes the least, {:.1f} MiB; "
      "raise --memory-limit, recompute activations, or add ranks",
      question.memory_limit / kMega, least->layout(), least->micro_batches,
      least->most_memory() / kMega));
}

}  // namespace

double PipelinePlan::most_memory() const {
  double most = 0;
  for (const PlannedStage& stage : stages) most = std::max(most, stage.memory.total());
  return most;
}

std::string PipelinePlan::layout() const {
  if (!partition.is_straight()) return partition.text();
  const std::size_t p = stages.size();
  if (p == 1) return fmt::format("dp={}", copies);
  return copies == 1 ? fmt::format("pp={}", p) : fmt::format("pp={},dp={}", p, copies);
}

const PipelinePlan& PlanReport::best() const {
  if (pipelines.empty() || !pipelines.front().fits) return data_parallel;
  const PipelinePlan& first = pipelines.front();
  return data_parallel.fits && data_parallel.seconds <= first.seconds ? data_parallel : first;
}

Result<PlanReport> plan_pipeline(const PlanQuestion& question) {
  if (std::string fault = fault_of_question(question); !fault.empty())
    return wrong_plan("plan: " + fault);
  auto alone = data_parallel_plan(question);
  if (!alone) return alone.error();
  PlanReport report{.data_parallel = std::move(alone).value()};
  const auto take = [&report](const std::string& what, Result<PipelinePlan> plan) {
    if (plan) report.pipelines.push_back(std::move(plan).value());
    else report.left_out.push_back(fmt::format("{}: {}", what, plan.error().what));
  };
  if (question.form.kind == PipelineKind::pipedream) {
    take("pipedream", replicated_plan(question));
  } else {
    for (const int stages : stage_counts(question))
      take(fmt::format("pp={}", stages), straight_plan(question, stages));
  }
  const bool is_given = question.micro_batches > 0 || !question.partition.stages.empty();
  if (is_given && report.pipelines.empty() && !report.left_out.empty())
    return wrong_plan("plan: " + report.left_out.front());
  return checked_report(std::move(report), question);
}

}  // namespace paceline::plan
