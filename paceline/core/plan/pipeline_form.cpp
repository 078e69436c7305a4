#include "paceline/core/plan/pipeline_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/settings/named_choice.h"

namespace paceline::plan {
namespace {

struct NamedForm {
  std::string_view name;
  PipelineKind kind;
  std::vector<Setting> settings = {};
};

const std::vector<NamedForm>& named_forms() {
  static const std::vector<NamedForm> forms = {
      {"sequential", PipelineKind::sequential},
      {"gpipe", PipelineKind::gpipe},
      {"1f1b", PipelineKind::one_f_one_b},
      {"interleaved",
       PipelineKind::interleaved,
       {{.name = "chunks",
         .standard = 2,
         .least = 1,
         .most = 64,
         .meaning = "parts of the model on each rank",
         .whole = true}}},
      {"zero_bubble", PipelineKind::zero_bubble},
      {"pipedream",
       PipelineKind::pipedream,
       {{.name = "sync",
         .standard = 0,
         .least = 0,
         .most = 1,
         .meaning = "whether a mini-batch computes on one version on all stages",
         .whole = true,
         .words = {"none", "vertical"}}}},
      {"pipedream_2bw", PipelineKind::pipedream_2bw},
  };
  return forms;
}

template <typename Value>
double largest(std::span<const StageTimes> stages, const Value& value) {
  double most = 0;
  for (const StageTimes& stage : stages) most = std::max(most, value(stage));
  return most;
}

// The transfers between the stages; what the last one has is none.
std::span<const StageTimes> before_last(std::span<const StageTimes> stages) {
  return stages.first(stages.size() - 1);
}

double all_transfers(std::span<const StageTimes> stages) {
  double sum = 0;
  for (const StageTimes& stage : before_last(stages)) sum += stage.transfer;
  return sum;
}

double all_seconds(std::span<const StageTimes> stages) {
  double sum = 0;
  for (const StageTimes& stage : stages) sum += stage.seconds();
  return sum;
}

double zero_bubble_seconds(std::span<const StageTimes> stages, int micro_batches) {
  const int p = static_cast<int>(stages.size());
  const double f = largest(stages, [](const StageTimes& s) { return s.forward; });
  const double half = largest(stages, [](const StageTimes& s) { return s.backward / 2; });
  const double busy = largest(stages, [](const StageTimes& s) { return s.seconds(); });
  return micro_batches * busy + (p - 1) * (f + half) -
         (std::min(p, micro_batches) - 1) * std::min(f, half);
}

}  // namespace

Result<PipelineForm> PipelineForm::parse(std::string_view text) {
  const auto choice = parse_named("pipeline schedule", text, named_forms());
  if (!choice) return choice.error();
  PipelineForm form{.kind = choice.value().entry.kind};
  const Settings& settings = choice.value().settings;
  if (form.kind == PipelineKind::interleaved) form.chunks = settings.as<int>("chunks");
  if (form.kind == PipelineKind::pipedream) form.is_vertical = settings.on("sync");
  return form;
}

std::string PipelineForm::text() const {
  const std::string name(std::ranges::find(named_forms(), kind, &NamedForm::kind)->name);
  if (kind == PipelineKind::interleaved) return fmt::format("{}:chunks={}", name, chunks);
  return is_vertical ? name + ":sync=vertical" : name;
}

PipelineForm recomputing(PipelineForm form) {
  if (form.kind == PipelineKind::zero_bubble) form.kind = PipelineKind::one_f_one_b;
  return form;
}

int in_flight(std::span<const int> replicas, int stage) {
  const auto at = static_cast<std::size_t>(stage);
  const int behind = std::accumulate(replicas.begin() + stage, replicas.end(), 0);
  return (behind + replicas[at] - 1) / replicas[at];
}

double live_activations(const PipelineForm& form, std::span<const int> replicas, int stage,
                        int micro_batches) {
  const int p = static_cast<int>(replicas.size()), m = micro_batches;
  PACELINE_CHECK(stage >= 0 && stage < p && m >= 1,
                 "stage {} of {} with {} micro-batches: there is no such stage, or no micro-batch",
                 stage, p, m);
  switch (form.kind) {
    case PipelineKind::sequential: return 1;
    case PipelineKind::gpipe: return m;
    case PipelineKind::one_f_one_b: return std::min(p - stage, m);
    case PipelineKind::interleaved: {
      const int all = form.chunks * m;
      const int warm = 2 * (p - stage - 1) + (form.chunks - 1) * p + 1;
      return static_cast<double>(m == p ? all : std::min(warm, all)) / form.chunks;
    }
    case PipelineKind::zero_bubble: return std::min(p, m);
    case PipelineKind::pipedream:
    case PipelineKind::pipedream_2bw: return in_flight(replicas, stage);
  }
  return 0;
}

int weight_versions(const PipelineForm& form, std::span<const int> replicas, int stage) {
  if (form.is_synchronous()) return 1;
  if (form.kind == PipelineKind::pipedream_2bw) return 2;
  if (form.is_vertical) return in_flight(replicas, 0) + (replicas[0] > 1 ? 1 : 0);
  return in_flight(replicas, stage) + (replicas[static_cast<std::size_t>(stage)] > 1 ? 1 : 0);
}

double steady_seconds(std::span<const StageTimes> stages) {
  double most = largest(before_last(stages), [](const StageTimes& s) { return s.transfer; });
  for (std::size_t first = 0; first < stages.size(); ++first) {
    double seconds = 0;
    int replicas = 0;
    for (std::size_t last = first; last < stages.size(); ++last) {
      if (last > first) seconds += 2 * stages[last - 1].transfer;
      seconds += stages[last].seconds();
      replicas += stages[last].replicas;
      most = std::max(most, seconds / replicas);
    }
  }
  return most;
}

double step_seconds(const PipelineForm& form, std::span<const StageTimes> stages,
                    int micro_batches) {
  PACELINE_CHECK(!stages.empty() && micro_batches >= 1,
                 "{} stages and {} micro-batches: a pipeline has 1 or more of both", stages.size(),
                 micro_batches);
  const int m = micro_batches;
  const double once = all_seconds(stages) + 2 * all_transfers(stages);
  const double slowest = largest(stages, [](const StageTimes& s) { return s.seconds(); });
  const double sent = largest(before_last(stages), [](const StageTimes& s) { return s.transfer; });
  switch (form.kind) {
    case PipelineKind::sequential: return m * once;
    case PipelineKind::gpipe: {
      const double forward = largest(stages, [](const StageTimes& s) { return s.forward; });
      const double backward = largest(stages, [](const StageTimes& s) { return s.backward; });
      return once + (m - 1) * (std::max(forward, sent) + std::max(backward, sent));
    }
    case PipelineKind::one_f_one_b: return once + (m - 1) * steady_seconds(stages);
    case PipelineKind::interleaved:
      return (m + idle_micro_batches(form, static_cast<int>(stages.size()))) *
                 std::max(slowest, 2 * sent) +
             2 * all_transfers(stages);
    case PipelineKind::zero_bubble:
      return zero_bubble_seconds(stages, m) + 2 * all_transfers(stages);
    case PipelineKind::pipedream:
    case PipelineKind::pipedream_2bw: return m * steady_seconds(stages);
  }
  return 0;
}

double idle_micro_batches(const PipelineForm& form, int stages) {
  return form.kind == PipelineKind::interleaved ? (stages - 1.0) / form.chunks : stages - 1.0;
}

}  // namespace paceline::plan
