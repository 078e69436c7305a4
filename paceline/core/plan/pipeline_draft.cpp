#include "paceline/core/plan/pipeline_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "paceline/core/pipeline/check/simulate_order.h"
#include "paceline/core/plan/micro_batch_choice.h"

namespace paceline::plan {
namespace {

// Orders of more operations are not simulated: these take some milliseconds already.
constexpr int kMostSimulated = 20'000;

Failure wrong_micro_batches(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

std::vector<RankLayers> ranks_of(const PlanQuestion& question, const StagePartition& partition,
                                 int stages) {
  std::vector<RankLayers> ranks(static_cast<std::size_t>(stages));
  for (std::size_t i = 0; i < partition.stages.size(); ++i) {
    const Stage& chunk = partition.stages[i];
    RankLayers& rank = ranks[i % ranks.size()];
    const auto first = question.layers.begin() + chunk.first;
    rank.layers.insert(rank.layers.end(), first, first + chunk.layers());
    if (rank.chunks.empty() && chunk.first > 0) rank.input_bytes = (first - 1)->output_bytes;
    rank.chunks.push_back(chunk);
    rank.output_bytes = std::max(rank.output_bytes, rank.layers.back().output_bytes);
    const bool sends = stages > 1 && i + 1 < partition.stages.size();
    if (sends) rank.message_bytes = std::max(rank.message_bytes, rank.layers.back().output_bytes);
    const bool receives = stages > 1 && chunk.first > 0;
    if (receives) rank.message_bytes = std::max(rank.message_bytes, (first - 1)->output_bytes);
  }
  return ranks;
}

// Both are for a pass of this share of the profile's samples.
double forward_of(LayerCosts layers, double share) {
  double seconds = 0;
  for (const LayerCost& layer : layers) seconds += layer.forward_of(share);
  return seconds;
}

double backward_of(LayerCosts layers, Recompute recompute, double share) {
  double seconds = recompute.every == Recompute::kNone ? 0 : forward_of(layers, share);
  for (const LayerCost& layer : layers) seconds += layer.backward_of(share);
  return seconds;
}

double update_of(const RankLayers& rank) {
  double seconds = 0;
  for (const LayerCost& layer : rank.layers) seconds += layer.update;
  return seconds;
}

PlannedStage planned_stage(const PipelineDraft& draft, int stage, int micro_batches) {
  const PlanQuestion& question = draft.question;
  const RankLayers& rank = draft.ranks[static_cast<std::size_t>(stage)];
  const std::vector<int> replicas = draft.replicas();
  const double share = draft.share(micro_batches);
  const int same = draft.copies * rank.chunks.front().replicas;
  PlannedStage planned{.chunks = rank.chunks, .times = {}, .recompute = question.recompute};
  planned.live_micro_batches =
      live_activations(draft.computed_form(), replicas, stage, micro_batches);
  planned.weight_versions = weight_versions(draft.form, replicas, stage);
  if (question.recompute.every == Recompute::kAutomatic)
    planned.recompute = best_recompute(rank.layers, rank.input_bytes, planned.live_micro_batches);
  planned.times = {
      .forward = forward_of(rank.layers, share) + question.start / 2,
      .backward = backward_of(rank.layers, planned.recompute, share) + question.start / 2,
      .transfer = question.latency + share * rank.output_bytes / question.bytes_per_second,
      .replicas = rank.chunks.front().replicas};
  // A rank's last chunk has its gradients before the others have given anything back.
  const bool is_live_before_gradients = draft.form.is_synchronous() && draft.form.chunks == 1 &&
                                        planned.live_micro_batches == micro_batches;
  planned.memory = rank_memory({.layers = rank.layers,
                                .input_bytes = rank.input_bytes,
                                .optimizer_slots = question.optimizer_slots,
                                .has_masters = question.has_masters,
                                .zero_stage = question.zero_stage,
                                .data_ranks = same,
                                .weight_versions = planned.weight_versions,
                                .live_micro_batches = planned.live_micro_batches,
                                .micro_share = share,
                                .message_bytes = rank.message_bytes,
                                .is_live_before_gradients = is_live_before_gradients,
                                .recompute = planned.recompute});
  return planned;
}

// A ring sums the gradients of a stage among the ranks that hold it.
double summing_seconds(const PipelineDraft& draft, const RankLayers& rank) {
  const int same = draft.copies * rank.chunks.front().replicas;
  if (same == 1) return 0;
  const double bytes = weights_of(rank.layers) * (draft.question.has_masters ? .5 : 1);
  return 2.0 * (same - 1) *
         (draft.question.latency + bytes / same / draft.question.bytes_per_second);
}

std::vector<StageTimes> times_of(const std::vector<PlannedStage>& stages) {
  std::vector<StageTimes> times;
  for (const PlannedStage& stage : stages) times.push_back(stage.times);
  return times;
}

// The seconds of each stage of the order for a micro-batch; a rank's start is dealt to its chunks.
pipeline::PipelineCosts costs_of(const PipelineDraft& draft,
                                 const std::vector<PlannedStage>& stages, int micro_batches) {
  const PlanQuestion& question = draft.question;
  const double share = draft.share(micro_batches);
  const double start = question.start / 2 / draft.form.chunks;
  pipeline::PipelineCosts costs{.stages = {},
                                .latency = question.latency,
                                .bytes_per_second = question.bytes_per_second,
                                .cut_bytes = {}};
  for (std::size_t i = 0; i < draft.partition.stages.size(); ++i) {
    const Stage& chunk = draft.partition.stages[i];
    const LayerCosts layers = LayerCosts(question.layers)
                                  .subspan(static_cast<std::size_t>(chunk.first),
                                           static_cast<std::size_t>(chunk.layers()));
    const double backward = backward_of(layers, stages[i % stages.size()].recompute, share) + start;
    const double weight = draft.splits_backward() ? backward / 2 : 0;
    costs.stages.push_back({forward_of(layers, share) + start, backward - weight, weight});
    costs.cut_bytes.push_back(share * layers.back().output_bytes);
  }
  costs.cut_bytes.pop_back();
  return costs;
}

// A step from the first forward to the last backward pass. Stages differ, and those of a rank do
// too, so a schedule with a flush is simulated.
double step_of(const PipelineDraft& draft, const std::vector<PlannedStage>& stages,
               int micro_batches) {
  const PipelineForm form = draft.computed_form();
  const std::int64_t operations = std::int64_t{2} * draft.partition.size() * micro_batches;
  const bool simulates =
      draft.stages() > 1 && form.is_synchronous() && operations <= kMostSimulated;
  if (!simulates) return step_seconds(form, times_of(stages), micro_batches);
  const auto schedule = pipeline::parse_schedule(form.text());
  const auto order = pipeline::make_order(schedule.value(), draft.stages(), micro_batches);
  return pipeline::simulate_order(order.value(), costs_of(draft, stages, micro_batches))
      .value()
      .makespan;
}

double forecast(const PipelineDraft& draft, const std::vector<PlannedStage>& stages,
                int micro_batches) {
  const std::vector<StageTimes> times = times_of(stages);
  const double step = step_of(draft, stages, micro_batches);
  double exposed = 0, slowest = 0, update = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const double sum = summing_seconds(draft, draft.ranks[i]);
    exposed = std::max(exposed, sum - times[i].backward);
    slowest = std::max(slowest, sum / times[i].replicas);
    update = std::max(update, update_of(draft.ranks[i]));
  }
  // Without a flush, sums run beside the computation of the next batches. A stage of replicas
  // updates once for all of their batches.
  if (draft.form.is_synchronous()) return step + exposed + update;
  return std::max(step + update / times.front().replicas, slowest);
}

double idle_of(const PipelineDraft& draft) {
  const PipelineKind kind = draft.form.kind;
  if (!draft.form.is_synchronous() || kind == PipelineKind::sequential) return 0;
  return idle_micro_batches(draft.form, draft.stages());
}

int least_micro_batches(const PipelineDraft& draft) {
  return draft.form.kind == PipelineKind::pipedream_2bw ? std::max(1, draft.stages() - 1) : 1;
}

// The cost of a micro-batch on the slowest stage, or between two.
BatchCost batch_cost(const PipelineDraft& draft) {
  const PlanQuestion& question = draft.question;
  double starts = 0;
  BatchCost cost{.start = question.start + (draft.stages() > 1 ? 2 * question.latency : 0)};
  for (const RankLayers& rank : draft.ranks) {
    const auto seconds_of = [&](double share) {
      return forward_of(rank.layers, share) + backward_of(rank.layers, question.recompute, share);
    };
    starts = std::max(starts, seconds_of(0));
    const bool sends = &rank != &draft.ranks.back();
    const double sent = sends ? 2 * rank.output_bytes / question.bytes_per_second : 0;
    cost.per_sample = std::max(
        cost.per_sample, std::max(seconds_of(1) - seconds_of(0), sent) / question.profiled_batch);
  }
  cost.start += starts;
  return cost;
}

MicroBatchQuestion micro_batch_question(const PipelineDraft& draft) {
  const bool interleaves = draft.form.kind == PipelineKind::interleaved;
  const int least = least_micro_batches(draft);
  return {.batch = draft.batch(),
          .idle = idle_of(draft),
          .cost = batch_cost(draft),
          .multiple_of = interleaves ? draft.stages() : 1,
          .fits = [&draft, least](int m) { return m >= least && planned(draft, m).fits; },
          .step_seconds = [&draft](int m) { return planned(draft, m).seconds; }};
}

// The legal number that takes the least memory, for a pipeline that fits with none.
PipelinePlan smallest(const PipelineDraft& draft, const MicroBatchQuestion& question) {
  PipelinePlan best;
  for (const int m : divisors_of(question.batch)) {
    if (m < least_micro_batches(draft) || m % question.multiple_of != 0) continue;
    PipelinePlan plan = planned(draft, m);
    if (best.stages.empty() || plan.most_memory() < best.most_memory()) best = std::move(plan);
  }
  return best;
}

Result<PipelinePlan> with_given_micro_batches(const PipelineDraft& draft) {
  const int m = draft.question.micro_batches, p = draft.stages();
  if (m > draft.batch())
    return wrong_micro_batches(fmt::format("{} micro-batches for {} samples: give {} or fewer", m,
                                           draft.batch(), draft.batch()));
  if (draft.form.kind == PipelineKind::interleaved && m % p != 0)
    return wrong_micro_batches(
        fmt::format("interleaved stages take a multiple of {} micro-batches, and "
                    "there are {}: give {}",
                    p, m, (m / p + 1) * p));
  if (m < least_micro_batches(draft))
    return wrong_micro_batches(
        fmt::format("two versions of the weights need {} micro-batches or more on {} stages, and "
                    "there are {}: give {}",
                    p - 1, p, m, p - 1));
  return planned(draft, m);
}

}  // namespace

PipelineDraft draft_of(const PlanQuestion& question, const PipelineForm& form,
                       StagePartition partition, int copies) {
  const int stages = partition.size() / form.chunks;
  auto ranks = ranks_of(question, partition, stages);
  return {question, form, std::move(partition), copies, std::move(ranks)};
}

PipelinePlan planned(const PipelineDraft& draft, int micro_batches) {
  PipelinePlan plan{.form = draft.form,
                    .copies = draft.copies,
                    .partition = draft.partition,
                    .micro_batches = micro_batches};
  double busy = 0;
  int ranks = 0;
  for (int stage = 0; stage < draft.stages(); ++stage) {
    plan.stages.push_back(planned_stage(draft, stage, micro_batches));
    busy += micro_batches * plan.stages.back().times.seconds();
    ranks += plan.stages.back().times.replicas;
  }
  plan.seconds = forecast(draft, plan.stages, micro_batches);
  plan.idle_share = std::max(0.0, 1 - busy / (ranks * plan.seconds));
  plan.fits = plan.most_memory() <= draft.question.memory_limit;
  return plan;
}

Result<PipelinePlan> finished(const PipelineDraft& draft) {
  if (draft.form.kind == PipelineKind::pipedream) return planned(draft, 1);
  if (draft.question.micro_batches > 0) return with_given_micro_batches(draft);
  const MicroBatchQuestion question = micro_batch_question(draft);
  if (const auto choice = best_micro_batches(question)) {
    PipelinePlan plan = planned(draft, choice.value().micro_batches);
    if (draft.stages() > 1) plan.why = choice.value().why;
    return plan;
  } else if (PipelinePlan plan = smallest(draft, question); !plan.stages.empty()) {
    return plan;
  } else {
    return choice.error();
  }
}

}  // namespace paceline::plan
