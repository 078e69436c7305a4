#include "paceline/torch/gradient/gradient_step.h"

#include <algorithm>

namespace paceline::gradient {

StepWeights GradientStep::weights_of_all() {
  StepWeights weights = figures.waiting([this] {
    return telling([] { return "while the ranks told their weights, with which a step begins"; },
                   [this] { return facts.weights(); });
  });
  figures.weighed(weights);
  return weights;
}

// It tells for each parameter whether some rank of weight > 0 used it.
std::vector<bool> GradientStep::used_by_any() {
  std::vector<bool> used = passes.used();
  if (weight.weight == 0) used.assign(used.size(), false);
  used = figures.waiting([&] {
    return telling(
        [] { return "while the ranks told which parameters they used, with which a step ends"; },
        [&] { return facts.used_by_any(used); });
  });
  figures.current().used = static_cast<int>(std::ranges::count(used, true));
  return used;
}

replica::WatchedLane::Call GradientStep::tell_reading(std::size_t unit) {
  failure.rethrow();
  return failure.communicating([&] { return facts.tell_reading(unit); });
}

void GradientStep::wait_for_reading(const replica::WatchedLane::Call& told) {
  failure.communicating([&] { facts.wait_for(told); });
}

bool GradientStep::has_shadows() {
  return failure.communicating([this] { return facts.weights().shadows > 0; });
}

}  // namespace paceline::gradient
