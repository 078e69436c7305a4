// Steps that have 16 bits, or whose gradients are clipped, between the mean gradients and the
// update.
#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/replicas.h"

namespace paceline::parallel {

void Replicas::backward(const at::Tensor& loss) {
  thread_.require("DataParallel::backward");
  (numbers_ ? numbers_->scaled(loss) : loss).backward();
}

// Ends the step, unless synchronize() did, and makes its gradients those that an optimizer may step
// with. All ranks decide alike, also those that will complain.
Replicas::EndedStep Replicas::end_gated_step(bool& may_update) {
  EndedStep ended;
  const auto before = std::exchange(synchronized_, std::nullopt);
  const bool has_ended =
      numbers_ ? numbers_->is_unscaled() : before && updates_ && !synchrony().has_gradients();
  if (has_ended) {
    if (numbers_ && synchrony().has_gradients()) numbers_->require_scaled();
    ended.outcome.end = before.value_or(StepEnd::gradients);
  } else {
    ended = end_step(nullptr);
    if (numbers_ && ended.outcome.end == StepEnd::gradients)
      is_finite_ = numbers_->unscale(synchrony().leaves());
  }
  may_update = ended.outcome.end == StepEnd::gradients && (numbers_ == nullptr || is_finite_);
  if (may_update && options_.max_grad_norm > 0) clip_grad_norm(options_.max_grad_norm);
  return ended;
}

void Replicas::end_update(bool has_updated) {
  if (!numbers_) return;
  report_.overflowed = !has_updated;
  numbers_->ended(has_updated);
  if (has_updated) write_model();
}

// A step by the optimizers of DataParallelOptions::optimizer.
bool Replicas::step_gated_updates() {
  bool may_update = true;
  synchrony().steps_by(told_rates_);
  const EndedStep ended = end_gated_step(may_update);
  const StepEnd end = ended.outcome.end;
  if (end == StepEnd::gradients || end == StepEnd::skipped) {
    double seconds = 0;
    if (may_update && ended.is_fine()) seconds = updates_->update_all();
    else
      for (const at::Tensor& leaf : synchrony().leaves()) leaf.mutable_grad().reset();
    synchrony().stepped(updates_->optimizers(), seconds);
    report_step();
    end_update(may_update);
  }
  refuse(ended);
  synchronized_ = end;
  if (end == StepEnd::over) return false;
  change_if_due();
  return true;
}

std::vector<Parameter> Replicas::masters() const {
  std::vector<Parameter> masters = parts_.dense;
  std::erase_if(masters, [](const Parameter& each) { return !each.computed.defined(); });
  return masters;
}

// The model takes the values of its masters, rounded to nearest.
void Replicas::write_model() {
  const at::NoGradGuard no_grad;
  for (const Parameter& each : parts_.dense)
    if (each.computed.defined()) at::Tensor(each.computed.detach()).copy_(each.tensor);
}

// Masters take what was loaded into the model since: where it is not what they were rounded to.
void Replicas::read_model() {
  const at::NoGradGuard no_grad;
  for (const Parameter& each : parts_.dense) {
    if (!each.computed.defined()) continue;
    const at::Tensor loaded = each.tensor.to(each.computed.scalar_type()).ne(each.computed);
    if (loaded.any().item<bool>())
      each.tensor.detach().copy_(at::where(loaded, each.computed.to(at::kFloat), each.tensor));
  }
}

void Replicas::refuse_model_parameters(const torch::optim::Optimizer& optimizer) const {
  for (const Parameter& each : parts_.dense) {
    if (!each.computed.defined()) continue;
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& one : group.params()) {
        if (!one.is_same(each.computed)) continue;
        throw_misuse(c10::str("the optimizer has the model's parameter '", each.name,
                              "', whose 16 bits would lose small updates: make the optimizer over "
                              "parallel.parameters(), which are float32"));
      }
    }
  }
}

}  // namespace paceline::parallel
