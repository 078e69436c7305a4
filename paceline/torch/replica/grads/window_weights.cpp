#include "paceline/torch/replica/grads/window_weights.h"

#include <torch/torch.h>

#include <algorithm>

#include "paceline/core/base/base.h"

namespace paceline::parallel {

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

}  // namespace paceline::parallel
