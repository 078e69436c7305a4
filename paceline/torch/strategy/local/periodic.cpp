#include "paceline/torch/strategy/local/periodic.h"

#include <torch/torch.h>

#include "paceline/torch/replica/optimizer_mean.h"

namespace paceline::strategy {

void Periodic::after_update(const replica::Optimizers& optimizers) {
  if (++steps_ >= report_.period) {
    report_.distance = exchange(optimizers);
    ++report_.exchanges;
    report_.bytes += static_cast<double>(replica_.bytes_of(elements_brought()));
    replica_.ledger.restart();
    steps_ = 0;
  }
  step_made(optimizers);
}

double Periodic::find_mean() {
  replica_.model.read(mean_);
  replica_.average(mean_);
  return replica_.distance(replica_.model.square_distance(mean_));
}

Setting momentum_setting(std::string_view name, Momentum standard) {
  return {.name = name,
          .standard = static_cast<double>(standard),
          .meaning =
              "what the optimizers keep from step to step: each rank's own, the mean of "
              "all, or nothing after an exchange",
          .whole = true,
          .words = {"keep", "average", "reset"}};
}

void apply(Momentum policy, const replica::Optimizers& optimizers, Communicator& group,
           double share) {
  if (policy == Momentum::average) replica::average_optimizers(optimizers, group, share);
  if (policy == Momentum::reset)
    for (torch::optim::Optimizer* optimizer : optimizers) optimizer->state().clear();
}

}  // namespace paceline::strategy
