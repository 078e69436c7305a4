#include "paceline/torch/replica/equality_watch.h"

#include <torch/torch.h>

#include <exception>
#include <string>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/torch/replica/equal/failed_end.h"
#include "paceline/torch/replica/equal/replica_check.h"

namespace paceline::parallel {
namespace {

// A rank waits so long for what others tell of their parameters. The last one to come has heard
// all.
constexpr std::chrono::milliseconds kForTheOthers{100};

}  // namespace

void EqualityWatch::bind(Communicator* ranks) {
  ranks_ = ranks;
  told_ = ranks != nullptr && every_ > 0 ? std::make_unique<ToldReplicas>(*ranks) : nullptr;
  seen_.clear();
}

// Nobody writes to the parameters now. What makes replicas differ from the beginning shows after
// the first step already.
void EqualityWatch::check(Synchrony& synchrony, std::int64_t step) {
  const bool is_alone = ranks_ == nullptr && parts_.placements.group() == nullptr;
  const bool is_due = std::exchange(is_due_, false);
  if (is_alone || synchrony.may_differ()) return;
  if (is_due || (every_ > 0 && (step == 2 || step % every_ == 0))) compare(synchrony, step, is_due);
}

void EqualityWatch::compare(Synchrony& synchrony, std::int64_t step, bool is_due) {
  if (synchrony.pieces() == nullptr) synchrony.drain();
  const at::DisableRecordFunctionGuard unseen;  // it is no use of sharded parameters
  const auto all = synchrony.holds_parameters() ? parts_.trained_and_frozen() : parts_.frozen;
  try {
    if (ranks_ != nullptr) require_equal_replicas(*ranks_, all, step);
    if (Communicator* const group = parts_.placements.group()) {
      std::vector<Parameter> whole = all;
      std::erase_if(whole, [this](const Parameter& each) {
        return !parts_.placements.is_whole(each.tensor);
      });
      require_equal_replicas(*group, whole, step);
    }
  } catch (const Error& error) {
    Failure failure = error.failure();
    if (is_due) {
      failure.what +=
          ". The states of the optimizers were each rank's own since the synchrony was changed: "
          "end the first step after a change by step(optimizer), which takes their mean";
    }
    synchrony.fail(std::make_exception_ptr(Error(failure)));
    throw Error(std::move(failure));
  }
}

bool EqualityWatch::may_compare(const Synchrony& synchrony, std::int64_t step) const {
  return told_ && step > told_->last_step() && !synchrony.may_differ() &&
         synchrony.holds_parameters() && !synchrony.in_step();
}

std::optional<Failure> EqualityWatch::compared(std::int64_t step) {
  const at::DisableRecordFunctionGuard unseen;  // it is no use of sharded parameters
  return told_->compare(parts_.trained_and_frozen(), step, kForTheOthers);
}

// A program that calls it often pays for a check now and then.
void EqualityWatch::compare_with_others(Synchrony& synchrony, std::int64_t step) {
  if (!may_compare(synchrony, step)) return;
  constexpr std::int64_t kSteps = 10;
  const std::int64_t last = told_->last_step();
  if (step < last + kSteps && step < 2 * last) return;
  if (const auto difference = compared(step)) {
    synchrony.fail(std::make_exception_ptr(Error(*difference)));
    throw Error(*difference);
  }
}

void EqualityWatch::see_parameters() {
  if (!told_) return;
  seen_.clear();
  for (const Parameter& each : parts_.dense)
    seen_.emplace_back(each.tensor.storage().unsafeGetStorageImpl(), each.tensor._version());
}

// Whether nobody is seen to have written to the parameters since the last step.
bool EqualityWatch::are_as_seen() const {
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    const at::Tensor& now = parts_.dense[i].tensor;
    if (seen_[i] !=
        std::pair<const void*, std::uint32_t>(now.storage().unsafeGetStorageImpl(), now._version()))
      return false;
  }
  return !seen_.empty();
}

// A program may do with its model what it likes when the training is over: then nothing is told.
void EqualityWatch::compare_at_the_end(const Synchrony& synchrony, std::int64_t step) {
  if (std::uncaught_exceptions() > 0 || !may_compare(synchrony, step) || !are_as_seen()) return;
  const auto difference = compared(step);
  if (!difference) return;
  warn(difference->what +
       ". Nobody asked before the end of the training, as finish() does, so this process ends with "
       "exit code 1");
  fail_at_exit();
}

}  // namespace paceline::parallel
