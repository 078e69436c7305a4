#include "paceline/torch/replica/batch_weight.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::replica {

void WindowWeights::say(double weight) {
  if (has_gradients_) {
    next_ = weight;
    return;
  }
  present_ = weight;
  is_said_ = true;
}

std::optional<double> WindowWeights::arriving(std::size_t parameter) {
  std::optional<double> grown;
  if (next_) {
    grown = begin_micro_batch();
  } else if (!has_gradients_ && is_said_ && count_before_ == 0) {
    has_older_gradients_ = std::ranges::any_of(
        trained_, [](const Parameter& each) { return each.tensor.grad().defined(); });
  }
  has_gradients_ = true;
  has_several_passes_ |= seen_in_[parameter] == micro_batch_;
  seen_in_[parameter] = micro_batch_;
  return grown;
}

std::optional<double> WindowWeights::begin_micro_batch() {
  const double weight = *std::exchange(next_, std::nullopt);
  if (!is_said_ || has_several_passes_) {
    if (weight == present_) return std::nullopt;
    throw_misuse(c10::str(
        "DataParallel::weight(", weight, ") was called in a window of backward passes of which ",
        is_said_ ? "several ran under one weight" : "the first ran before a weight was said",
        ", so it is not sure which samples count: say it before each micro-batch, or once before "
        "the first one for the whole window; losses of the same samples are added up and have one "
        "backward()"));
  }
  before_ += present_;
  ++count_before_;
  ++micro_batch_;
  are_equal_ = are_equal_ && weight == present_;
  has_several_passes_ = false;
  present_ = weight;
  const double total = before_ + weight;
  if (are_equal_ || total == 0) return total;
  if (has_older_gradients_) {
    throw_misuse(c10::str(
        "DataParallel::weight(", weight,
        ") differs from that of an earlier micro-batch of this window, which began with gradients "
        "of another step, whose weight is not known: call optimizer.zero_grad() before the window, "
        "or say equal weights"));
  }
  const double count = count_before_ + 1;
  factor_ = count * weight / total;
  if (before_ > 0) scale_gradients(count * before_ / (count_before_ * total));
  return total;
}

void WindowWeights::scale_gradients(double factor) {
  const at::NoGradGuard no_grad;
  for (const Parameter& each : trained_)
    if (at::Tensor grad = each.tensor.grad(); grad.defined()) grad.mul_(factor);
}

void WindowWeights::restart(double weight) {
  present_ = weight;
  next_.reset();
  before_ = 0;
  count_before_ = 0;
  ++micro_batch_;
  is_said_ = has_gradients_ = has_several_passes_ = has_older_gradients_ = false;
  are_equal_ = true;
  factor_ = 1;
}

void BatchWeight::bind(const ModelParts& parts, bool is_told_at_once) {
  weight_ = {};
  window_.emplace(parts.trained());
  is_told_at_once_ = is_told_at_once;
}

void BatchWeight::say(double weight, Synchrony& synchrony) {
  if (!std::isfinite(weight) || weight < 0) {
    throw_misuse(c10::str("DataParallel::weight(", weight,
                          "): a weight is the number of samples of this rank's batch; 0 for none"));
  }
  if (synchrony.in_step()) {
    throw_misuse(
        "DataParallel::weight() was called between backward() and synchronize(): gradients of this "
        "step were weighted already. Call it before the forward pass");
  }
  if (weight == 0 && synchrony.has_gradients()) {
    throw_misuse(
        "DataParallel::weight(0), which a turn of join() without a batch says, would throw away "
        "the gradients that this rank accumulated in a window of backward passes. An early "
        "step(optimizer) closes the window with what there is: let all ranks call it before the "
        "turn in which one has no batch, or hand join() a loader of whole windows, a turn each");
  }
  if (is_told_at_once_ && weight != weight_.weight && synchrony.has_gradients()) {
    throw_misuse(
        c10::str("DataParallel::weight(", weight,
                 ") was called in a window of backward passes, and with zero_stage 3 ranks "
                 "tell their weights in its first forward pass: say the weight of the "
                 "whole window before that, once"));
  }
  weight_ = {weight, true};
  synchrony.weigh(weight_);
  if (!is_told_at_once_) window_->say(weight);
}

void BatchWeight::restore(const RankWeight& weight, Synchrony& synchrony) {
  weight_ = weight;
  restart();
  synchrony.weigh(weight_);
}

void BatchWeight::arriving(std::size_t parameter, Synchrony& synchrony) {
  if (const auto grown = window_->arriving(parameter)) {
    weight_ = {*grown, true};
    synchrony.weigh(weight_);
  }
}

at::Tensor BatchWeight::mean(const at::Tensor& value, Synchrony& synchrony,
                             Communicator& calls) const {
  const double weight = weight_.weight;
  if (weight > 0 && (!value.defined() || value.numel() != 1)) {
    throw_misuse(
        c10::str("DataParallel::mean() takes one number, such as the loss of this rank's "
                 "batch, and this is ",
                 value.defined() ? describe(value) : "an undefined tensor",
                 ": hand in loss.mean(), or say weight(0) where a rank has no batch"));
  }
  std::vector<double> sums = {weight > 0 ? weight * value.item<double>() : 0, weight};
  const WatchedLane lane(synchrony.watch(), WaitWatch::Lane::calls);
  lane.wait(lane.call([&] { return calls.all_reduce(buffer_of(sums)); }),
            [] { return "in DataParallel::mean()"; });
  return at::scalar_tensor(sums[0] / sums[1], at::kDouble);
}

}  // namespace paceline::replica
