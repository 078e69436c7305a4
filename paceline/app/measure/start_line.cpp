#include "paceline/app/measure/start_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/result.h"

namespace paceline::measure {
namespace {

constexpr std::size_t kTokenAt = 0, kCounterAt = 64;  // each in its own cache line

constexpr int kLooksBetweenClocks = 1 << 14;

}  // namespace

std::int64_t& CommonMemory::front(std::size_t offset) const {
  return *reinterpret_cast<std::int64_t*>(memory_.bytes().data() + offset);
}

std::int64_t& CommonMemory::counter() const {
  return front(kCounterAt);
}

std::optional<CommonMemory> CommonMemory::create(Communicator& group, std::size_t bytes) {
  const std::size_t total = kFrontBytes + bytes;
  std::optional<CommonMemory> common;
  // Process, descriptor, token; the token proves that it is this memory.
  std::vector<std::int64_t> offer(3);
  if (group.rank() == 0) {
    common = CommonMemory(transport::SharedMemory::create(total, "paceline measure").value());
    const auto token = static_cast<std::int64_t>(std::random_device()());
    common->front(kTokenAt) = token;
    offer = {::getpid(), common->memory_.fd(), token};
  }
  group.broadcast(buffer_of(offer)).wait();
  if (group.rank() != 0) {
    const std::string path = fmt::format("/proc/{}/fd/{}", offer[0], offer[1]);
    transport::FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (fd.is_open()) {
      auto memory = transport::SharedMemory::attach(std::move(fd), total);
      if (memory) common = CommonMemory(std::move(memory).value());
    }
    if (common && common->front(kTokenAt) != offer[2]) common.reset();
  }
  std::vector<std::int64_t> mapped = {common.has_value()};
  group.all_reduce(buffer_of(mapped), {.op = ReduceOp::min}).wait();
  if (mapped[0] == 0) common.reset();
  return common;
}

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
