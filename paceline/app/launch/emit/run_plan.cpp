#include "paceline/app/launch/emit/run_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::launch {

std::vector<std::string> launcher_words(const RunPlan& plan, const NodePlace& place) {
  std::vector<std::string> words = {plan.launcher, "run"};
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  if (plan.nodes > 1) {
    add("--nnodes", std::to_string(plan.nodes));
    add("--node-rank", place.node_rank);
    add("--rdzv-endpoint", place.endpoint);
    add("--rdzv-id", place.id);
    add("--secret-file", place.secret_file);
  }
  add("-n", std::to_string(plan.processes));
  words.insert(words.end(), plan.options.begin(), plan.options.end());
  words.emplace_back("--");
  return words;
}

std::string note_on_logs(const RunPlan& plan) {
  const auto option = std::ranges::find(plan.options, "--log-dir");
  if (option == plan.options.end() || option + 1 == plan.options.end()) return {};
  return fmt::format("# The lines of rank N, of the newest start: {}/latest/rank_N.log\n",
                     *(option + 1));
}

const std::vector<Target>& targets() {
  static const std::vector<Target> table = {slurm(), k8s_trainjob(), pytorchjob(), mpijob(),
                                            compose()};
  return table;
}

}  // namespace paceline::launch
