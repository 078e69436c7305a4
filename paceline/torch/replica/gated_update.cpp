#include "paceline/torch/replica/gated_update.h"

#include <c10/util/ScopeExit.h>
#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/torch/replica/grads/gradient_note.h"

namespace paceline::replica {
namespace {

// Ranks tell each other of a gradient by one number: the least is the one that is named.
constexpr double kNothing = 1e18, kOfNoRank = 1e15;

}  // namespace

GatedUpdate::GatedUpdate(const ModelParts& parts, Job* job, const DataParallelOptions& options,
                         std::unique_ptr<MixedPrecision> mixed_precision)
    : parts_(parts),
      job_(job),
      max_norm_(options.max_grad_norm),
      precision_(options.precision),
      mixed_precision_(std::move(mixed_precision)),
      finite_(options.non_finite, options.non_finite_limit) {}

void GatedUpdate::bind(Communicator& group, Communicator* calls) {
  group_ = &group;
  calls_ = calls;
}

void GatedUpdate::follow(Synchrony& synchrony, const Leaves& leaves) {
  synchrony_ = &synchrony;
  leaves_ = &leaves;
}

bool GatedUpdate::sees_gradients() const {
  return (finite_.looks() && !synchrony_->keeps_gradients()) ||
         (mixed_precision_ != nullptr && mixed_precision_->has_scale());
}

void GatedUpdate::require_same_scale(const JsonReader::Json& saved) const {
  replica::require_same_scale(mixed_precision_ != nullptr && mixed_precision_->has_scale(), saved,
                              precision_);
}

void GatedUpdate::backward(const at::Tensor& loss, bool counts) {
  if (finite_.looks() && counts) is_loss_finite_ &= replica::is_finite(loss.detach());
  is_in_backward_ = true;
  const auto is_over = c10::make_scope_exit([this] { is_in_backward_ = false; });
  (mixed_precision_ ? mixed_precision_->scaled(loss) : loss).backward();
}

void GatedUpdate::gradient_made(std::size_t i, const Parameter& parameter) {
  const bool has_scale = mixed_precision_ != nullptr && mixed_precision_->has_scale();
  if (has_scale && !is_in_backward_ && unscaled_parameter_.empty())
    unscaled_parameter_ = parameter.name;
  if (finite_.looks()) finite_.made(i, parameter.leaf().grad());
}

// --- how ranks agree on gradients that are not finite ---

// Collective: along one axis, then the next, as norms are added up.
bool GatedUpdate::is_true_everywhere(bool here) const {
  double falses = here ? 0 : 1;
  for (Communicator* const group : {parts_.placements.group(), calls_})
    if (group != nullptr) falses = group->all_reduce(falses, ReduceOp::max);
  return falses == 0;
}

// Means of whole parameters have the same bits on all ranks.
bool GatedUpdate::means_are_finite() const {
  const bool are_finite = !leaves_->first_not_finite();
  return leaves_->are_parts() ? is_true_everywhere(are_finite) : are_finite;
}

// The first gradient that was not finite on the lowest rank that has one; none: nobody knows one.
// Collective, where all ranks are in this step.
std::optional<GatedUpdate::NotFinite> GatedUpdate::agreed_first() const {
  const auto parameters = static_cast<double>(parts_.dense.size() + parts_.sparse.size());
  const bool is_own = finite_.first().has_value() || synchrony_->keeps_gradients();
  const auto found = finite_.first() ? finite_.first() : leaves_->first_not_finite();
  if (!synchrony_->steps_together())
    return found ? std::optional(NotFinite{*found, own_rank()}) : std::nullopt;
  double code = kNothing;
  if (found && is_own) code = own_rank() * parameters + static_cast<double>(*found);
  if (found && !is_own) code = kOfNoRank + parameters - static_cast<double>(*found);
  for (Communicator* const group : {parts_.placements.group(), calls_})
    if (group != nullptr) code = group->all_reduce(code, ReduceOp::min);
  if (code == kNothing) return {};
  if (code >= kOfNoRank) return NotFinite{static_cast<std::size_t>(kOfNoRank + parameters - code)};
  return NotFinite{static_cast<std::size_t>(std::fmod(code, parameters)),
                   static_cast<int>(code / parameters)};
}

std::string GatedUpdate::text_on(const std::optional<NotFinite>& first, std::int64_t step) const {
  if (!first)
    return c10::str("step ", step, ": a gradient overflowed on its way, or in the norm of all");
  const std::string name = parts_.trained()[first->parameter].name;
  if (first->rank)
    return c10::str("step ", step, ": the gradient of '", name, "' on rank ", *first->rank,
                    " is not finite (NaN or infinite), the first of that rank's");
  return c10::str("step ", step, ": the mean gradient of '", name,
                  "' is not finite (NaN or infinite)");
}

// Collective. A loss that was finite may overflow by the scale alone, which then falls.
bool GatedUpdate::is_scale_to_blame() const {
  return mixed_precision_ != nullptr && mixed_precision_->may_fall() &&
         is_true_everywhere(is_loss_finite_);
}

// --- the gates ---

void GatedUpdate::prepare(EndedStep& ended, std::int64_t step) {
  const StepEnd end = ended.outcome.end;
  ended.unscaled = std::exchange(unscaled_parameter_, {});
  if (end == StepEnd::gradients) {
    bool is_refused = false;
    if (mixed_precision_)
      is_finite_ = mixed_precision_->unscale(leaves_->all(), ended.unscaled.empty());
    if (is_finite_ && finite_.looks() && !synchrony_->keeps_gradients())
      is_finite_ = means_are_finite();
    if (is_finite_ && max_norm_ > 0) {
      is_finite_ = std::isfinite(leaves_->clip(max_norm_));
      is_refused = !is_finite_ && !finite_.skips();
    }
    if (!is_finite_) leave_out(ended, step, is_refused);
  } else {
    count_overflow(ended, step);
  }
  if (is_finite_) finite_.counted();
  is_loss_finite_ = true;
}

// The step changes nothing on any rank. `is_refused`: the caller asked for something that it cannot
// have without it. All ranks of the step call it.
void GatedUpdate::leave_out(EndedStep& ended, std::int64_t step, bool is_refused) {
  const auto first = agreed_first();
  const bool is_error = is_refused || (finite_.throws() && !is_scale_to_blame());
  finite_.left_out();
  is_finite_ = false;
  drop_gradients();
  const char* const advice =
      "look at the batch and the loss of that step, and at the learning rate";
  if (is_error) {
    ended.not_finite =
        c10::str(text_on(first, step), ". The step was left out; ", advice,
                 ". DataParallelOptions::non_finite = \"skip\" leaves such steps out by itself");
  } else if (finite_.is_at_limit()) {
    ended.not_finite = c10::str(
        text_on(first, step), ", and ", finite_.in_a_row(),
        " steps in a row were left out for such a reason, as many as "
        "DataParallelOptions::non_finite_limit allows: the model learns nothing any more. ",
        advice);
  } else if (finite_.is_time_for_a_line() && own_rank() == 0) {
    warn(c10::str(text_on(first, step), ", and ", finite_.in_a_row(),
                  " steps in a row were left out for such a reason: ", advice, ". After ",
                  finite_.limit(), " of them the run ends"));
  }
}

void GatedUpdate::count_overflow(EndedStep& ended, std::int64_t step) {
  if (ended.outcome.end == StepEnd::skipped && synchrony_->report().overflowed)
    leave_out(ended, step);
}

bool GatedUpdate::leaves_out_own_step(EndedStep& ended, std::int64_t step, bool counts) {
  const bool is_fine = !counts || !leaves_->first_not_finite();
  is_finite_ = synchrony_->steps_together() ? is_true_everywhere(is_fine) : is_fine;
  if (is_finite_) {
    finite_.counted();
    return false;
  }
  leave_out(ended, step);
  return true;
}

void GatedUpdate::end_left_out_step() {
  if (mixed_precision_ && mixed_precision_->is_unscaled() && !is_finite_)
    mixed_precision_->ended(false);
}

void GatedUpdate::give_up(const EndedStep& ended) {
  if (mixed_precision_ && !ended.is_fine())
    is_finite_ ? mixed_precision_->gave_up() : mixed_precision_->ended(false);
}

void GatedUpdate::drop_gradients() {
  for (const at::Tensor& leaf : leaves_->all()) leaf.mutable_grad().reset();
  for (const Parameter& each : parts_.trained())
    for (const at::Tensor& one : {each.tensor, each.leaf()}) drop_if_elsewhere(one);
}

// --- clipping ---

double GatedUpdate::clip(double max_norm, std::int64_t step) {
  leaves_->require_means("DataParallel::clip_grad_norm");
  const double norm = leaves_->clip(max_norm);
  if (std::isfinite(norm)) return norm;
  if (synchrony_->keeps_gradients()) {
    if (finite_.skips()) return norm;  // step() leaves them out, with all ranks
    throw_misuse(text_on(agreed_first(), step + 1));
  }
  EndedStep ended;
  leave_out(ended, step, /*is_refused=*/true);
  ended.refuse(precision_);
  return norm;
}

void GatedUpdate::watch_clipping() {
  if (!leaves_->are_parts()) return;
  std::vector<c10::Storage> storages;
  for (const at::Tensor& leaf : leaves_->all())
    if (leaf.grad().defined() && leaf.grad().layout() == at::kStrided)
      storages.push_back(leaf.grad().storage());
  clipping_ = std::make_unique<ScalingByNorm>(storages);
}

// All ranks of the program made the same calls, so all end the step, and throw.
void GatedUpdate::refuse_clipped_parts() {
  const auto clipping = std::exchange(clipping_, nullptr);
  if (clipping == nullptr || !clipping->was_seen()) return;
  if (synchrony_->in_step()) {
    static_cast<void>(synchrony_->end_step(nullptr));
    drop_gradients();
  }
  throw_misuse(
      "the gradients of the last synchronize() were scaled by a norm of what this rank has of "
      "them, so that ranks with other parts scaled by other factors: clip with "
      "parallel.clip_grad_norm(max_norm), or with paceline::clip_grad_norm, in place of "
      "torch::nn::utils::clip_grad_norm_ over parallel.parameters() or over layers that are split");
}

}  // namespace paceline::replica
