#include "paceline/app/launch/emit/run_plan.h"

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

const std::vector<Target>& targets() {
  static const std::vector<Target> table = {slurm(), k8s_trainjob(), pytorchjob(), mpijob(),
                                            compose()};
  return table;
}

}  // namespace paceline::launch
