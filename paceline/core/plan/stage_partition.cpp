#include "paceline/core/plan/stage_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "paceline/core/base/number.h"
#include "paceline/core/settings/settings.h"

namespace paceline::plan {
namespace {

std::optional<int> count_in(std::string_view text) {
  const auto value = number_in<int>(text);
  return value && text.front() != '-' ? value : std::nullopt;
}

std::optional<Stage> stage_in(std::string_view word) {
  const std::size_t times = std::min(word.find('x'), word.size());
  const std::string_view layers = word.substr(0, times);
  const std::size_t dash = std::min(layers.find('-'), layers.size());
  const auto first = count_in(layers.substr(0, dash));
  const auto last = dash == layers.size() ? first : count_in(layers.substr(dash + 1));
  const auto replicas = times == word.size() ? 1 : count_in(word.substr(times + 1));
  if (!first || !last || !replicas || *replicas < 1) return std::nullopt;
  return Stage{*first, *last, *replicas};
}

std::string layers_text(int first, int last) {
  return first == last ? fmt::format("layer {}", first)
                       : fmt::format("layers {} to {}", first, last);
}

std::string more_stages_than_layers(int stages, int layers) {
  return fmt::format(
      "{} stages for {} layers: give at most {} stages, or divide the model into more layers",
      stages, layers, layers);
}

// Says how a stage is wrong after one that ended with the layer `before`; empty: it is right.
std::string fault_of(const Stage& stage, int before, int layers) {
  if (stage.first > stage.last)
    return fmt::format("{}-{} ends before it begins: write {}-{}", stage.first, stage.last,
                       stage.last, stage.first);
  if (stage.last >= layers)
    return fmt::format("there is no layer {}: the model has the layers 0 to {}", stage.last,
                       layers - 1);
  if (stage.first <= before)
    return fmt::format("{} would stand on two stages: let this stage begin with layer {}",
                       layers_text(stage.first, std::min(before, stage.last)), before + 1);
  if (stage.first > before + 1)
    return fmt::format("{} would stand on no stage: let the stage after layer {} begin with {}",
                       layers_text(before + 1, stage.first - 1), before, before + 1);
  return {};
}

}  // namespace

Result<StagePartition> StagePartition::parse(std::string_view text, int layers) {
  const auto wrong = [&](std::string_view what) {
    return Failure{Fault::misuse, fmt::format("partition \"{}\": {}", text, what), {}};
  };
  const std::vector<std::string_view> words = split_at(text, ',');
  const auto count = static_cast<int>(words.size());
  StagePartition partition;
  for (const std::string_view word : words) {
    const auto stage = stage_in(word);
    if (!stage)
      return wrong(fmt::format(
          "'{}' is no stage: write FIRST-LAST or FIRST-LASTxREPLICAS, as in 0-3x2,4x1", word));
    partition.stages.push_back(*stage);
  }
  if (count > layers) return wrong(more_stages_than_layers(count, layers));
  int before = -1;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (const auto fault = fault_of(partition.stages[i], before, layers); !fault.empty())
      return wrong(fmt::format("at '{}': {}", words[i], fault));
    before = partition.stages[i].last;
  }
  if (before != layers - 1)
    return wrong(fmt::format("{} would stand on no stage: let the last stage end with layer {}",
                             layers_text(before + 1, layers - 1), layers - 1));
  return partition;
}

int StagePartition::ranks() const {
  int ranks = 0;
  for (const Stage& stage : stages) ranks += stage.replicas;
  return ranks;
}

bool StagePartition::is_straight() const {
  return std::ranges::all_of(stages, [](const Stage& stage) { return stage.replicas == 1; });
}

std::string StagePartition::text() const {
  const bool counts = !is_straight();
  std::string text;
  for (const Stage& stage : stages) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", stage.first);
    if (stage.last != stage.first) text += fmt::format("-{}", stage.last);
    if (counts) text += fmt::format("x{}", stage.replicas);
  }
  return text;
}

Result<StagePartition> even_cut(int layers, int stages) {
  if (stages < 1)
    return Failure{Fault::misuse, fmt::format("{} stages: a pipeline has 1 or more", stages), {}};
  if (stages > layers) return Failure{Fault::misuse, more_stages_than_layers(stages, layers), {}};
  StagePartition partition;
  for (int stage = 0, first = 0; stage < stages; ++stage) {
    const int length = layers / stages + (stage < layers % stages ? 1 : 0);
    partition.stages.push_back({first, first + length - 1, 1});
    first += length;
  }
  return partition;
}

}  // namespace paceline::plan
