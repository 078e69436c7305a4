// The end of a step: from sent buckets to mean gradients.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/gradient/gradient_averaging.h"
#include "paceline/torch/gradient/sparse_gradients.h"
#include "paceline/torch/replica/agreement.h"

namespace paceline::parallel {
namespace {

// A failure tells in which part of a step it came.
template <typename When, typename Call>
auto telling(const When& when, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    Failure failure = error.failure();
    failure.what = c10::str(when(), ": ", failure.what);
    throw Error(std::move(failure));
  }
}

}  // namespace

bool GradientAveraging::has_gradients() const {
  return open_ || passes_.has_accumulated_any();
}

void GradientAveraging::steps_by(const Optimizers& optimizers) {
  if (!alone()) facts_.compare(fingerprint_of_rates(optimizers));
}

StepOutcome GradientAveraging::end_step(OwnUpdates* updates) {
  if (failure_) std::rethrow_exception(failure_);
  if (passes_.is_paused())
    throw_misuse(
        "DataParallel::synchronize() under no_sync(): end its guard before the last backward() of "
        "the window");
  const at::NoGradGuard no_grad;
  const std::string touched = passes_.complaint();
  if (!open_) begin();  // no gradient did
  if (updates != nullptr) steps_by(updates->optimizers());
  StepOutcome outcome = communicating([&] { return collect(updates); });
  outcome.complaint = touched;
  if (touched.empty() && outcome.end != StepEnd::over && figures_.current().used == 0) {
    outcome.complaint =
        "no rank made a gradient in this step, though their weights say that there were batches: "
        "call backward() before synchronize() or step(); after synchronize() call "
        "optimizer.step() itself; a rank without a batch says weight(0)";
  }
  const bool steps = outcome.complaint.empty() && updates != nullptr;
  if (outcome.end == StepEnd::gradients && steps) {
    const double seconds = updates->update_all();
    stepped(updates->optimizers(), seconds);
    outcome.end = StepEnd::parameters;
  }
  if (outcome.end == StepEnd::under_way && steps) updates->update_from(dense_);
  report(outcome);
  communicating([this] { decide_next_layout(); });
  end();
  return outcome;
}

// Sends what is left, waits, and hands the means out, or lets them come.
StepOutcome GradientAveraging::collect(OwnUpdates* updates) {
  if (alone()) facts_.tell_weight(weight_);
  const StepWeights weights = figures_.waiting([this] {
    return telling([] { return "while the ranks told their weights, with which a step begins"; },
                   [this] { return facts_.weights(); });
  });
  figures_.weighed(weights);
  StepOutcome outcome{.root = weights.root, .has_writes = weights.has_writes};
  if (weights.total == 0) {
    outcome.end = StepEnd::over;
    return outcome;
  }
  outcome.share = weights.share(group_.rank());
  if (!alone()) {
    figures_.backward_ended();
    fill_the_rest();
    send_full_buckets();
    if (receiver_ != nullptr) receiver_->sent_all();
  }
  learn_what_was_used();
  outcome.rates_differ = facts_.has_difference();
  if (alone()) return outcome;
  const auto sparse = std::span(parameters_).subspan(dense_);
  average_sparse(group_, sparse, {used_.begin() + static_cast<std::ptrdiff_t>(dense_), used_.end()},
                 weights);
  if (updates != nullptr && layout_.plan.crosses_barrier) {
    updates_ = updates;
    is_on_its_way_.assign(present_plan().size(), true);
    is_step_open_late_ = true;
    drop_gradients(dense_);
    outcome.end = StepEnd::under_way;
    return outcome;
  }
  bool overflowed = false;
  for (std::size_t bucket = 0; bucket < present_plan().size(); ++bucket) {
    overflowed |= !wait_for(bucket);
    hand_out(bucket);
  }
  if (receiver_ != nullptr) overflowed = receiver_->take_overflow();
  if (!overflowed) return outcome;
  drop_gradients(parameters_.size());
  outcome.end = StepEnd::skipped;
  return outcome;
}

void GradientAveraging::learn_what_was_used() {
  std::vector<bool> used = passes_.used();
  if (weight_.weight == 0) used.assign(used.size(), false);
  used_ = figures_.waiting([&] {
    return telling(
        [] { return "while the ranks told which parameters they used, with which a step ends"; },
        [&] { return facts_.used_by_any(used); });
  });
  figures_.current().used = static_cast<int>(std::ranges::count(used_, true));
}

bool GradientAveraging::wait_for(std::size_t bucket) {
  const auto& members = present_plan()[bucket].gradients;
  const auto name = [&](int index) { return parameters_[static_cast<std::size_t>(index)].name; };
  const auto when = [&] {
    return c10::str(
        "while the gradients of bucket ", bucket + 1, " of ", present_plan().size(), " ('",
        name(members.front()), "'",
        members.size() > 1 ? c10::str(" to '", name(members.back()), "'") : std::string(),
        ") were averaged");
  };
  return figures_.waiting([&] {
    return telling(when, [&] {
      if (receiver_ != nullptr) {
        receiver_->wait(bucket);
        return true;
      }
      path_->wait(layout_.plan.groups[bucket].begin);
      return !path_->take_overflow(static_cast<int>(bucket));
    });
  });
}

void GradientAveraging::hand_out(std::size_t bucket) {
  if (receiver_ != nullptr) {
    receiver_->hand_out(bucket, used_);
    for (int index : present_plan()[bucket].gradients) {
      const auto i = static_cast<std::size_t>(index);
      if (!used_[i]) continue;
      if (!elsewhere_[i].defined()) elsewhere_[i] = gradient_elsewhere(parameters_[i].tensor);
      parameters_[i].tensor.mutable_grad() = elsewhere_[i];
    }
    release_memory(bucket);
    return;
  }
  for (int index : present_plan()[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    if (used_[i]) parameters_[i].tensor.mutable_grad() = buckets_->slot(i);
  }
}

// The first ones: the dense, or all.
void GradientAveraging::drop_gradients(std::size_t parameters) {
  for (std::size_t i = 0; i < parameters; ++i) parameters_[i].tensor.mutable_grad().reset();
}

// Autograd, and what this rank contributes to the next step, must not find it.
void GradientAveraging::drop_elsewhere(std::size_t i) {
  if (!elsewhere_[i].defined()) return;
  at::Tensor& grad = parameters_[i].tensor.mutable_grad();
  if (is_elsewhere(grad)) grad.reset();
}

void GradientAveraging::before_use(std::size_t parameter) {
  if (parameter >= dense_ || alone()) return;
  const std::size_t bucket = buckets_->bucket_of(parameter);
  if (bucket < is_on_its_way_.size() && is_on_its_way_[bucket]) bring_home(bucket);
}

void GradientAveraging::drain() {
  if (!is_step_open_late_) return;
  for (std::size_t bucket = 0; bucket < is_on_its_way_.size(); ++bucket)
    if (is_on_its_way_[bucket]) bring_home(bucket);
  is_step_open_late_ = false;
}

void GradientAveraging::bring_home(std::size_t bucket) {
  if (failure_) std::rethrow_exception(failure_);
  is_on_its_way_[bucket] = false;
  const at::NoGradGuard no_grad;
  if (!communicating([&] { return wait_for(bucket); })) return;
  hand_out(bucket);
  updates_->update(present_plan()[bucket].gradients);
}

void GradientAveraging::stepped(const Optimizers&, double seconds) {
  for (std::size_t i = 0; i < dense_; ++i) drop_elsewhere(i);
  figures_.updated(seconds);
}

void GradientAveraging::report(const StepOutcome& outcome) {
  StepReport& current = figures_.current();
  if (path_) {
    const double under_way = path_->seconds_under_way();
    current.under_way_seconds = under_way - std::exchange(under_way_before_, under_way);
    const auto coded = path_->codec_work();
    const double whole = coded.whole - coded_before_.whole;
    current.coded_bytes = coded.bytes - coded_before_.bytes - whole;
    current.wire_bytes = std::max(0.0, coded.wire - coded_before_.wire - whole);
    coded_before_ = coded;
  }
  current.gradient_memory = static_cast<double>(buckets_->take_peak_bytes());
  current.plans = schedule_.plans();
  current.looks = schedule_.looks();
  figures_.report(outcome.end, present_plan());
  // Across the barrier a forward pass has updates and waits in it.
  if (!layout_.plan.crosses_barrier) figures_.record(weight_, passes_.number());
}

// Lanes of the next one are opened now, where all ranks stand; its memory is laid out when the step
// begins.
void GradientAveraging::decide_next_layout() {
  if (path_ == nullptr) return;
  auto layout = schedule_.next(group_, std::move(figures_.observed()));
  if (layout && !layout->is_like(layout_)) go_on_with(std::move(*layout));
}

void GradientAveraging::go_on_with(GradientLayout layout) {
  drain();
  auto state = codec_state();
  next_layout_ = std::move(layout);
  path_ = next_layout_->path(group_, with_servers_);
  restore_codecs(std::move(state));
  under_way_before_ = path_->seconds_under_way();
  coded_before_ = path_->codec_work();
}

}  // namespace paceline::parallel
