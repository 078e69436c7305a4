// Steps in which a gradient is not finite: how the ranks agree on them, and what they become.
#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/own_lines.h"
#include "paceline/torch/replica/grads/gradient_elsewhere.h"
#include "paceline/torch/replica/replicas.h"

namespace paceline::parallel {
namespace {

// Ranks tell each other of a gradient by one number: the least is the one that is named.
constexpr double kNothing = 1e18, kOfNoRank = 1e15;

}  // namespace

// Called by autograd, before the gradient goes on its way.
void Replicas::gradient_made(std::size_t i, const Parameter& parameter) {
  const bool has_scale = numbers_ != nullptr && numbers_->has_scale();
  if (has_scale && !is_in_backward_ && unscaled_parameter_.empty())
    unscaled_parameter_ = parameter.name;
  if (finite_.looks()) finite_.made(i, parameter.leaf().grad());
}

// The last parameter whose gradient backward makes first.
std::optional<std::size_t> Replicas::first_not_finite() const {
  const std::vector<at::Tensor> leaves = synchrony().leaves();
  const ParameterPieces* const pieces = synchrony().pieces();
  for (std::size_t k = leaves.size(); k-- > 0;) {
    const at::Tensor& grad = leaves[k].grad();
    if (grad.defined() && !is_finite(grad)) return pieces != nullptr ? pieces->own[k].parameter : k;
  }
  return {};
}

// Collective: along one axis, then the next, as norms are added up.
bool Replicas::is_true_everywhere(bool here) const {
  double falses = here ? 0 : 1;
  for (Communicator* const group : {parts_.placements.group(), calls_.get()})
    if (group != nullptr) falses = group->all_reduce(falses, ReduceOp::max);
  return falses == 0;
}

// Means of whole parameters have the same bits on all ranks.
bool Replicas::means_are_finite() const {
  const bool are_finite = !first_not_finite();
  const bool are_parts = synchrony().pieces() != nullptr || parts_.placements.group() != nullptr;
  return are_parts ? is_true_everywhere(are_finite) : are_finite;
}

// The first gradient that was not finite on the lowest rank that has one; none: nobody knows one.
// Collective, where all ranks are in this step.
std::optional<Replicas::NotFinite> Replicas::agreed_first() const {
  const auto parameters = static_cast<double>(parts_.dense.size() + parts_.sparse.size());
  const bool is_own = finite_.first().has_value() || synchrony().keeps_gradients();
  const auto found = finite_.first() ? finite_.first() : first_not_finite();
  if (!synchrony().steps_together())
    return found ? std::optional(NotFinite{*found, own_rank()}) : std::nullopt;
  double code = kNothing;
  if (found && is_own) code = own_rank() * parameters + static_cast<double>(*found);
  if (found && !is_own) code = kOfNoRank + parameters - static_cast<double>(*found);
  for (Communicator* const group : {parts_.placements.group(), calls_.get()})
    if (group != nullptr) code = group->all_reduce(code, ReduceOp::min);
  if (code == kNothing) return {};
  if (code >= kOfNoRank) return NotFinite{static_cast<std::size_t>(kOfNoRank + parameters - code)};
  return NotFinite{static_cast<std::size_t>(std::fmod(code, parameters)),
                   static_cast<int>(code / parameters)};
}

std::string Replicas::text_on(const std::optional<NotFinite>& first, std::int64_t step) const {
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
bool Replicas::is_scale_to_blame() const {
  return numbers_ != nullptr && numbers_->may_fall() && is_true_everywhere(is_loss_finite_);
}

void Replicas::drop_gradients() {
  for (const at::Tensor& leaf : synchrony().leaves()) leaf.mutable_grad().reset();
  for (const Parameter& each : parts_.trained())
    for (const at::Tensor& one : {each.tensor, each.leaf()})
      if (is_elsewhere(one.grad())) one.mutable_grad().reset();
}

// The step changes nothing on any rank. `is_refused`: the caller asked for something that it cannot
// have without it. All ranks of the step call it.
void Replicas::leave_out(EndedStep& ended, std::int64_t step, bool is_refused) {
  const auto first = agreed_first();
  const bool is_error = is_refused || (finite_.throws() && !is_scale_to_blame());
  finite_.left_out();
  is_finite_ = false;
  drop_gradients();
  report_.overflowed = true;
  report_.skipped = finite_.skipped();
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

// A compression found values that it cannot carry, and no rank has gradients.
void Replicas::count_overflow(EndedStep& ended) {
  if (ended.outcome.end == StepEnd::skipped && synchrony().report().overflowed)
    leave_out(ended, report_.step);
}

// True: this rank's gradients have not gone anywhere yet, and never will, because one is not finite
// on some rank of those that step together.
bool Replicas::leaves_out_own_step(OwnUpdates* updates) {
  if (!finite_.looks() || !synchrony().keeps_gradients()) return false;
  require_no_consensus();
  const bool is_fine = weight_.weight == 0 || !first_not_finite();
  is_finite_ = synchrony().steps_together() ? is_true_everywhere(is_fine) : is_fine;
  if (is_finite_) {
    finite_.counted();
    return false;
  }
  EndedStep ended;
  leave_out(ended, report_.step + 1);
  synchrony().leave_out_step(updates);
  window_->restart(weight_.weight);
  report_step();
  refuse(ended);
  change_if_due();
  return true;
}

}  // namespace paceline::parallel
