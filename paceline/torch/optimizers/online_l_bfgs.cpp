#include "paceline/torch/optimizers/online_l_bfgs.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/optimizers/stepping.h"

namespace paceline::optimizers {

OnlineLBFGS::OnlineLBFGS(std::vector<torch::Tensor> parameters, const OnlineLBFGSOptions& defaults)
    : Optimizer(std::move(parameters), std::make_unique<OnlineLBFGSOptions>(defaults)),
      parameters_(param_groups_),
      pairs_(parameters_, defaults.history_size()) {}

torch::Tensor OnlineLBFGS::step(LossClosure closure) {
  if (!closure) {
    throw_misuse(
        "OnlineLBFGS::step() needs a closure that computes loss and gradients of one batch, since "
        "it is called before and after the move");
  }
  const at::NoGradGuard no_grad;
  const auto& options = static_cast<const OnlineLBFGSOptions&>(param_groups_.at(0).options());
  const at::Tensor before = loss_of_closure(closure), gradient = parameters_.gradient();
  const double rate = decayed(options.lr(), options.decay_steps(), steps_++);
  const at::Tensor move = pairs_.times(gradient).mul_(-rate);
  parameters_.assign(parameters_.values().add_(move));
  loss_of_closure(closure);
  pairs_.add(move, (parameters_.gradient() - gradient).add_(move, options.damping()));
  return before;
}

}  // namespace paceline::optimizers
