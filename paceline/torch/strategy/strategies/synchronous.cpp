// Averages the gradients of each step: gradient/gradient_averaging.h.
#include "paceline/torch/gradient/gradient.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy::catalogue {

Strategy synchronous() {
  return {.name = "synchronous",
          .summary = "the mean gradient of all ranks in each step",
          .reference = "Goyal et al., Accurate, Large Minibatch SGD, 2017",
          .make = [](const Settings&, const StrategyContext& context) -> replica::MadeSynchrony {
            return {gradient::make_gradient_averaging(context.parts, context.group, context.job,
                                                      context.options)};
          },
          .traffic = [](const Settings&, const TrafficModel& model) -> std::vector<Traffic> {
            return {{.elements = model.elements, .overlap = Traffic::Overlap::backward}};
          }};
}

}  // namespace paceline::strategy::catalogue
