// Steps that have 16 bits, or whose gradients are clipped, between the mean gradients and the
// update.
#include <c10/util/ScopeExit.h>
#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/grads/gradient_elsewhere.h"
#include "paceline/torch/replica/replicas.h"

namespace paceline::parallel {

void Replicas::backward(const at::Tensor& loss) {
  thread_.require("DataParallel::backward");
  if (finite_.looks() && weight_.weight > 0) is_loss_finite_ &= is_finite(loss.detach());
  is_in_backward_ = true;
  const auto is_over = c10::make_scope_exit([this] { is_in_backward_ = false; });
  (numbers_ ? numbers_->scaled(loss) : loss).backward();
}

// Makes the mean gradients those that an optimizer may step with: unscaled, finite, clipped. All
// ranks decide alike, also those that will complain.
void Replicas::prepare_gradients(EndedStep& ended) {
  const StepEnd end = ended.outcome.end;
  ended.unscaled = std::exchange(unscaled_parameter_, {});
  if (end == StepEnd::gradients) {
    bool is_refused = false;
    if (numbers_) is_finite_ = numbers_->unscale(synchrony().leaves(), ended.unscaled.empty());
    if (is_finite_ && finite_.looks() && !synchrony().keeps_gradients())
      is_finite_ = means_are_finite();
    if (is_finite_ && options_.max_grad_norm > 0) {
      is_finite_ = std::isfinite(clip_leaves(options_.max_grad_norm));
      is_refused = !is_finite_ && !finite_.skips();
    }
    if (!is_finite_) leave_out(ended, report_.step, is_refused);
  } else {
    count_overflow(ended);
  }
  if (is_finite_) finite_.counted();
  is_loss_finite_ = true;
}

// Between synchronize() and the step a program may clip by the model's parameters, whose gradients
// their masters have.
void Replicas::show_gradients_of_masters() const {
  for (const Parameter& each : parts_.dense)
    if (each.computed.defined() && each.tensor.grad().defined())
      each.computed.mutable_grad() = gradient_elsewhere(each.computed);
}

void Replicas::hide_gradients_of_masters() const {
  for (const Parameter& each : parts_.dense)
    if (each.computed.defined() && is_elsewhere(each.computed.grad()))
      each.computed.mutable_grad().reset();
}

// libtorch's own clipping cannot know of the other ranks' parts.
void Replicas::watch_clipping() {
  if (synchrony().pieces() == nullptr && parts_.placements.group() == nullptr) return;
  std::vector<c10::Storage> storages;
  for (const at::Tensor& leaf : synchrony().leaves())
    if (leaf.grad().defined() && leaf.grad().layout() == at::kStrided)
      storages.push_back(leaf.grad().storage());
  clipping_ = std::make_unique<ScalingByNorm>(storages);
}

// All ranks of the program made the same calls, so all end the step, and throw.
void Replicas::refuse_clipped_parts() {
  const auto clipping = std::exchange(clipping_, nullptr);
  if (clipping == nullptr || !clipping->was_seen()) return;
  if (synchrony().in_step()) {
    static_cast<void>(synchrony().end_step(nullptr));
    drop_gradients();
  }
  throw_misuse(
      "the gradients of the last synchronize() were scaled by a norm of what this rank has of "
      "them, so that ranks with other parts scaled by other factors: clip with "
      "parallel.clip_grad_norm(max_norm), or with paceline::clip_grad_norm, in place of "
      "torch::nn::utils::clip_grad_norm_ over parallel.parameters() or over layers that are split");
}

// synchronize() left a step out, and the caller went on without step(optimizer).
void Replicas::end_left_out_step() {
  if (numbers_ && numbers_->is_unscaled() && !is_finite_) numbers_->ended(false);
}

// Ends the step, unless synchronize() did, and prepares its gradients.
Replicas::EndedStep Replicas::end_gated_step(bool& may_update) {
  EndedStep ended;
  const auto before = std::exchange(synchronized_, std::nullopt);
  if (synchrony().has_gradients()) end_left_out_step();
  const bool has_ended =
      numbers_ ? numbers_->is_unscaled() : before && updates_ && !synchrony().has_gradients();
  if (has_ended) {
    masters_follow_writes();
    if (numbers_ && synchrony().has_gradients()) numbers_->require_scaled();
    ended.outcome.end = before.value_or(StepEnd::gradients);
  } else {
    ended = end_step(nullptr);
    prepare_gradients(ended);
  }
  may_update = ended.outcome.end == StepEnd::gradients && is_finite_;
  return ended;
}

void Replicas::end_update(bool has_updated) {
  if (!numbers_) return;
  hide_gradients_of_masters();
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
    else drop_gradients();
    synchrony().stepped(updates_->optimizers(), seconds);
    report_step();
    end_update(may_update);
  }
  note_update(end);
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

// Before the first gradient of a step comes, and where there is none.
void Replicas::masters_follow_writes() {
  if (numbers_ == nullptr || looked_at_) return;
  looked_at_ = writes_->stamp();
  if (!masters().empty() && writes_->any()) read_model();
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
