#include "paceline/app/launch/emit/containers.h"

namespace paceline::launch {

std::string without_dollars(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '$' ? "$$" : std::string(1, c);
  return result;
}

Json launch_command(const RunPlan& plan, const NodePlace& place) {
  RunPlan exact = plan;
  for (std::string& word : exact.options) word = without_dollars(word);
  Json words = launcher_words(exact, place);
  for (const std::string& word : plan.command) words.push_back(without_dollars(word));
  return words;
}

std::chrono::seconds termination_grace(const RunPlan& plan) {
  return plan.stop_grace + std::chrono::seconds(5);
}

int container_restarts(const RunPlan& plan) {
  return plan.max_restarts * plan.nodes;
}

std::string secret_name(const RunPlan& plan) {
  return plan.name + "-secret";
}

}  // namespace paceline::launch
