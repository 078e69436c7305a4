#include "paceline/torch/replica/batch_weight.h"

#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::parallel {

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

}  // namespace paceline::parallel
