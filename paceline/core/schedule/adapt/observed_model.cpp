#include "paceline/core/schedule/adapt/observed_model.h"

#include <algorithm>

namespace paceline::schedule {
namespace {

const ObservedStep* best_of(std::span<const ObservedStep> steps) {
  const auto best = std::ranges::max_element(steps, [](const auto& a, const auto& b) {
    if (a.arrived.size() != b.arrived.size()) return a.arrived.size() < b.arrived.size();
    return !a.arrived.empty() && a.arrived_at.back() > b.arrived_at.back();
  });
  return best == steps.end() || best->arrived.empty() ? nullptr : &*best;
}

// The backward seconds of each gradient. The first one's cannot be told from the forward pass, so
// the mean of the others stands for it.
std::vector<double> backward_times(std::size_t gradients, const ObservedStep& step) {
  std::vector<double> seconds(gradients, 0);
  const std::vector<double>& at = step.arrived_at;
  for (std::size_t i = 1; i < at.size(); ++i)
    seconds[static_cast<std::size_t>(step.arrived[i])] = at[i] - at[i - 1];
  if (at.size() > 1) {
    const double mean = (at.back() - at.front()) / static_cast<double>(at.size() - 1);
    seconds[static_cast<std::size_t>(step.arrived.front())] = std::min(mean, at.front());
  }
  return seconds;
}

}  // namespace

Model observed_model(const std::vector<Tensor>& tensors, std::span<const int> order,
                     std::span<const ObservedStep> steps) {
  Model model{.name = "observed", .tensors = {}};
  for (auto place = order.rbegin(); place != order.rend(); ++place)
    model.tensors.push_back(tensors[static_cast<std::size_t>(*place)]);
  const ObservedStep* const step = best_of(steps);
  if (step == nullptr) return model;

  const std::vector<double> backward = backward_times(tensors.size(), *step);
  double all_backward = 0;
  for (const double seconds : backward) all_backward += seconds;
  const auto first = static_cast<std::size_t>(step->arrived.front());
  const double forward = step->arrived_at.front() - backward[first];
  const auto bytes = static_cast<double>(model.bytes());
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    Tensor& tensor = model.tensors[i];
    const auto gradient = static_cast<std::size_t>(order[order.size() - 1 - i]);
    const double share = all_backward > 0 ? backward[gradient] / all_backward
                                          : 1.0 / static_cast<double>(model.tensors.size());
    tensor.backward = backward[gradient];
    tensor.forward = forward * share;
    if (bytes > 0) tensor.update = step->update * static_cast<double>(tensor.bytes) / bytes;
  }
  return model;
}

}  // namespace paceline::schedule
