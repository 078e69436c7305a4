#include "paceline/torch/replica/equality_watch.h"

#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/equal/coalesced.h"
#include "paceline/torch/replica/equal/replica_check.h"

namespace paceline::replica {
namespace {

// The exit code of a process that found, when it was too late to throw, that its training went
// wrong.

std::atomic<bool> has_failed = false;

#ifdef __GLIBC__
// The handler that is registered first runs last, so the process's other handlers have run.
void end_as_failed(int status, void*) {
  if (status != 0 || !has_failed) return;
  std::fflush(nullptr);
  ::_exit(1);
}

[[maybe_unused]] const int registered = ::on_exit(&end_as_failed, nullptr);
#endif

// This process ends with exit code 1 in place of 0, after everything else that runs at its end.
// Another code than 0 stays. THREAD: any.
void fail_at_exit() {
  has_failed = true;
}

// A rank waits so long for what others tell of their parameters. The last one to come has heard
// all.
constexpr std::chrono::milliseconds kForTheOthers{100};

std::string name_of(BufferMode mode) {
  switch (mode) {
    case BufferMode::off: return "off";
    case BufferMode::broadcast: return "broadcast";
    case BufferMode::average: return "average";
  }
  return "unknown";
}

// Those that must be the same on all ranks.
std::vector<GivenOption> compared_options(const DataParallelOptions& options) {
  return {{"first_bucket_bytes", c10::str(options.first_bucket_bytes)},
          {"bucket_bytes", c10::str(options.bucket_bytes)},
          {"buffers", name_of(options.buffers)},
          {"static_order", options.static_order ? "true" : "false"},
          {"backward_passes_per_step", c10::str(options.backward_passes_per_step)},
          {"dropout_seed", c10::str(options.dropout_seed)},
          {"check_replicas_every", c10::str(options.check_replicas_every)},
          {"schedule", options.schedule},
          {"compression", options.compression},
          {"aggregate", options.aggregate},
          {"optimizer", options.optimizer ? "given" : "not given"},
          {"synchrony", options.synchrony},
          {"precision", options.precision},
          {"max_grad_norm", c10::str(options.max_grad_norm)},
          {"non_finite", options.non_finite},
          {"non_finite_limit", c10::str(options.non_finite_limit)},
          {"zero_stage", c10::str(options.zero_stage)},
          {"zero_prefetch", c10::str(options.zero_prefetch)}};
}

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

// Rank 0 counts the trainings that it begins, so each one of a group has a number of its own.
std::uint64_t agreed_training(Communicator& group) {
  static std::atomic<std::int64_t> begun = 0;
  std::vector<std::int64_t> number = {group.rank() == 0 ? ++begun : 0};
  group.broadcast(buffer_of(number), 0).wait();
  return static_cast<std::uint64_t>(number[0]);
}

void equalise(const ModelParts& parts, Communicator& group, int root,
              const DataParallelOptions& options) {
  if (group.size() == 1) return;
  require_agreement(group, parts.description());
  require_same_settings(group, compared_options(options));
  broadcast_all(parts.all(), group, root);
}

}  // namespace paceline::replica
