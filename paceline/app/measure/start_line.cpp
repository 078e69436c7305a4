#include "paceline/app/measure/start_line.h"

#include <sched.h>

#include <algorithm>
#include <atomic>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/result.h"

namespace paceline::measure {
namespace {

constexpr int kLooksBetweenClocks = 1 << 14;

}  // namespace

StartLine::StartLine(Communicator& group, const CommonMemory* memory)
    : group_(group),
      counter_(memory == nullptr ? nullptr : &memory->counter()),
      yields_(std::ranges::any_of(group.topology().pools, &ProcessorPool::is_crowded)) {}

void StartLine::wait() {
  if (counter_ == nullptr) return group_.barrier().wait();
  target_ += group_.size();
  const std::atomic_ref counter(*counter_);
  counter.fetch_add(1);
  Deadline deadline;
  for (int looks = 1; counter.load(std::memory_order_acquire) < target_; ++looks) {
    if (yields_) ::sched_yield();
    if (looks % kLooksBetweenClocks != 0) continue;
    if (deadline.is_never()) deadline = Deadline::in(std::chrono::minutes(10));
    if (deadline.passed())
      throw Error({Fault::timed_out, "not all ranks came to the next operation within 10 min", {}});
  }
}

}  // namespace paceline::measure
