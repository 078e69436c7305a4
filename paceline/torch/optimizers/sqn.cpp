#include "paceline/torch/optimizers/sqn.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/optimizers/stepping.h"

namespace paceline::optimizers {

SQN::SQN(std::vector<torch::Tensor> parameters, const SQNOptions& defaults)
    : Optimizer(std::move(parameters), std::make_unique<SQNOptions>(defaults)),
      parameters_(param_groups_),
      pairs_(parameters_, defaults.history_size()),
      sum_(parameters_.zeros(1)[0]),
      average_(parameters_.zeros(1)[0]) {
  if (defaults.period() < 1)
    throw_misuse(c10::str("SQN's period is ", defaults.period(), ": it has at least one step"));
}

torch::Tensor SQN::step(LossClosure closure) {
  if (wants_curvature()) {
    throw_misuse(c10::str("SQN::step() after step ", steps_,
                          ", which ended a period: call measure_curvature() between them, whenever "
                          "wants_curvature() is true"));
  }
  const at::NoGradGuard no_grad;
  const at::Tensor loss = loss_of_closure(closure), gradient = parameters_.gradient();
  const auto& options = static_cast<const SQNOptions&>(param_groups_.at(0).options());
  const double rate = decayed(options.lr(), options.decay_steps(), steps_++);
  const at::Tensor direction = pairs_.size() > 1 ? pairs_.times(gradient) : gradient;
  const at::Tensor now = parameters_.values().sub_(direction, rate);
  parameters_.assign(now);
  sum_.add_(now);
  if (steps_ % options.period() != 0) return loss;
  const at::Tensor average = sum_.div(static_cast<double>(options.period()));
  if (steps_ > options.period()) move_ = average - average_;
  average_.copy_(average);
  sum_.zero_();
  return loss;
}

void SQN::measure_curvature(const LossClosure& loss, const std::function<void()>& exchange) {
  if (!wants_curvature())
    throw_misuse("SQN::measure_curvature() is due when wants_curvature() is true, and it is not");
  zero_grad();
  {
    const ScopedValues at_average(parameters_.tensors(), parameters_.parts(average_));
    // The gradient of g.s is the Hessian times s. It arrives in the grads, as a loss's does, so
    // what averages gradients over ranks averages it too.
    const at::AutoGradMode with_gradients(true);
    const auto gradients =
        torch::autograd::grad({loss()}, parameters_.tensors(), {}, /*retain_graph=*/true,
                              /*create_graph=*/true, /*allow_unused=*/true);
    const auto moves = parameters_.parts(move_);
    at::Tensor along;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const at::Tensor part = (gradients[i] * moves[i]).sum();
      along = along.defined() ? along + part : part;
    }
    along.backward();
    if (exchange) exchange();
  }
  pairs_.add(move_, parameters_.gradient());
  zero_grad();
  move_ = at::Tensor();
}

}  // namespace paceline::optimizers
