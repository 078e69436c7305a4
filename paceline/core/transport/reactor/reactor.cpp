#include "paceline/core/transport/reactor/reactor.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "paceline/core/base/check.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paceline::transport {
namespace {

// The communication thread drives when no caller has driven for so long. While they do it keeps out
// of their way and looks whether they stopped: after such a time, and twice that whenever they had
// not at so many looks one after the other.
constexpr std::chrono::milliseconds kPark{1}, kLongestPark{8};
constexpr int kLooksOfOneLength = 16;
// A look at the rings costs nanoseconds, one at the poller a system call.
constexpr int kLooksBetweenPolls = 32;
// On a crowded processor so many looks may take seconds.
constexpr std::chrono::milliseconds kLongestWithoutPoll{1};

// A thread spins this many times as long as what it moved took: where data come slowly, as over a
// slow network, the processor is left to others, and to the kernel that carries them.
constexpr int kPatience = 4;

unsigned this_process() {
  watch_forks();
  return forks();
}

}  // namespace

Reactor::Reactor(ReactorOptions options)
    : forks_(this_process()), options_(options), communication_thread_([this] { communicate(); }) {}

Reactor::~Reactor() {
  stop();
}

void Reactor::stop() {
  if (!communication_thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);  // so that it is not missed between a test and its wait
    stopping_ = true;
  }
  communicator_changed_.notify_all();
  poller_.wake();
  communication_thread_.join();
}

void Reactor::add(Pollable& pollable) {
  pollables_.push_back(&pollable);
}

void Reactor::remove(Pollable& pollable) {
  // Replaced, not erased: the driver may be going through the list.
  std::ranges::replace(pollables_, &pollable, static_cast<Pollable*>(nullptr));
}

void Reactor::take_baton(std::unique_lock<std::mutex>& lock) {
  const bool dozed = std::exchange(dozes_, false);
  driven_ = true;
  ++drives_;
  driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  lock.unlock();
  if (!dozed) return;
  set_asleep(false);
  poller_.end_doze();  // that thread looks, from now on, whether callers have left something
}

void Reactor::drop_baton(std::unique_lock<std::mutex>& lock) {
  lock.lock();
  while (!tasks_.empty()) {  // the posting threads counted on this driver
    lock.unlock();
    turn();
    lock.lock();
  }
  driver_.store(std::thread::id(), std::memory_order_relaxed);
  driven_ = false;
  if (waiters_ > 0) waiters_changed_.notify_all();
  if (std::exchange(parked_, false)) communicator_changed_.notify_all();
}

class Reactor::Baton {
 public:
  Baton(Reactor& reactor, std::unique_lock<std::mutex>& lock) : reactor_(reactor), lock_(lock) {
    reactor_.take_baton(lock_);
  }
  ~Baton() { reactor_.drop_baton(lock_); }
  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;

 private:
  Reactor& reactor_;
  std::unique_lock<std::mutex>& lock_;
};

void Reactor::wake_if_asleep() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst)) poller_.wake();
}

void Reactor::post(std::function<void()> task) {
  if (!is_of_this_process()) return;
  std::unique_lock lock(mutex_);
  tasks_.push_back(std::move(task));
  has_tasks_.store(true, std::memory_order_seq_cst);
  if (driven_ || dozes_) {
    lock.unlock();
    wake_if_asleep();
    return;
  }
  // The communication thread may look less often, and goes on with this unless a caller waits.
  caller_tried_ = false;
  if (!callers_drive()) communicator_changed_.notify_all();
  const Baton baton(*this, lock);
  turn();
}

bool Reactor::try_take_baton() {
  if (!is_of_this_process()) return false;
  std::unique_lock lock(mutex_);
  if (driven_ || !tasks_.empty()) return false;
  take_baton(lock);
  return true;
}

// A caller that does nothing else must not starve links, sockets and timers.
void Reactor::drop_baton_of_try() {
  ++tries_;
  if (tries_ % kLooksBetweenPolls == 0) turn();
  if (tries_ % (kLooksBetweenPolls * kLooksBetweenPolls) == 0)
    poller_.wait(Deadline::in(std::chrono::seconds(0)));
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  drop_baton(lock);
  caller_tried_ = true;
}

void Reactor::check_process() const {
  PACELINE_CHECK(is_of_this_process(),
                 "this process is a child by fork() of the one that has joined the job: only that "
                 "one may communicate and end its Job; let the child compute, and end it by "
                 "_exit()");
}

void Reactor::check_may_wait(std::string_view what) const {
  check_process();
  PACELINE_CHECK(!driven_by_this_thread(),
                 "{} inside a callback of the communication thread: it would wait for itself; use "
                 "on_done, or call it from another thread",
                 what);
}

void Reactor::run(const std::function<void()>& task) {
  check_process();
  if (driven_by_this_thread()) return task();
  std::atomic<bool> done = false;
  std::exception_ptr thrown;
  post([&] {
    try {
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
    done = true;
    note_completion();
  });
  drive_until([&done] { return done.load(); }, Deadline::never());
  if (thrown) std::rethrow_exception(thrown);
}

void Reactor::relax(std::chrono::nanoseconds waited) {
  ++rests_;
  if (options_.share_cores || spin_rule_.yields(waited)) {
    ::sched_yield();
    return;
  }
#if defined(__x86_64__)
  _mm_pause();
#endif
}

bool Reactor::turn() {
  bool moved = false;
  if (has_tasks_.load(std::memory_order_acquire)) {
    std::vector<std::function<void()>> tasks;
    {
      const std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
      has_tasks_.store(false, std::memory_order_relaxed);
    }
    for (const auto& task : tasks) task();
    ++rests_;
    moved = true;
  }
  moved |= look();
  if (completed_) {
    completed_ = false;
    if (waiters_ > 0) {
      // Without it, a waiter between its test and its sleep would be missed.
      const std::lock_guard lock(mutex_);
      waiters_changed_.notify_all();
    }
  }
  return moved;
}

bool Reactor::look() {
  bool moved = false;
  if (!options_.share_cores) ++rests_;  // others work anyway
  unsent_ = false;
  if (polls_each_time() && polled_at_ != rests_) {
    polled_at_ = rests_;
    moved |= poller_.wait(Deadline::in(std::chrono::seconds(0))) > 0;
  }
  for (std::size_t i = 0; i < pollables_.size(); ++i) {
    if (pollables_[i] != nullptr) moved |= pollables_[i]->poll();
  }
  // No oftener: a peer that never stops taking must not keep the driver here.
  for (std::size_t i = 0; unsent_ && i < pollables_.size(); ++i) {
    if (pollables_[i] != nullptr) moved |= pollables_[i]->flush();
  }
  std::erase(pollables_, nullptr);
  return moved;
}

void Reactor::set_asleep(bool asleep) {
  asleep_.store(asleep, std::memory_order_seq_cst);
  for (Pollable* pollable : pollables_) {
    if (pollable != nullptr) pollable->set_asleep(asleep);
  }
}

bool Reactor::sleep(const std::function<bool()>& done, Deadline until, Sleep how) {
  set_asleep(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // This look sees what came before the bells were on.
  if (!turn() && !done()) {
    if (how == Sleep::keeps_baton) poller_.wait(until);
    else if (!doze(until)) return false;
  }
  set_asleep(false);
  return true;
}

// Returns whether this thread has the baton again. If not, another one has taken it meanwhile.
bool Reactor::doze(Deadline until) {
  until = until.sooner(poller_.next_timer());
  {
    const std::lock_guard lock(mutex_);
    if (!tasks_.empty() || waiters_ > 0) return true;
    driver_.store(std::thread::id(), std::memory_order_relaxed);
    driven_ = false;
    dozes_ = true;
  }
  poller_.doze(until);
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(dozes_, false)) return false;
    driven_ = true;
    driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  poller_.wait(Deadline::in(std::chrono::seconds(0)));
  return true;
}

bool Reactor::drive(const std::function<bool()>& done, Deadline deadline,
                    std::chrono::microseconds spin, Sleep how) {
  std::chrono::nanoseconds patience = spin;
  auto before = Clock::now(), moved_at = before, polled_at = before;
  // A caller whose waits all end within a few looks comes to the poller too.
  auto looks = static_cast<int>(drives_ % kLooksBetweenPolls);
  while (!done()) {
    bool moved = turn();
    // The poller is asked even while the rings are busy: timers, sockets and the deadline must not
    // starve.
    if (++looks % kLooksBetweenPolls == 0 || before - polled_at > kLongestWithoutPoll) {
      moved |= poller_.wait(Deadline::at(before)) > 0;
      polled_at = before;
    }
    const auto now = Clock::now();
    if (deadline.passed(now)) return true;
    patience += moved ? kPatience * (now - before) : before - now;
    patience = std::min<std::chrono::nanoseconds>(patience, spin);
    before = now;
    if (moved) spin_rule_.found(now - std::exchange(moved_at, now));
    if (patience.count() > 0) {
      if (!moved) relax(now - moved_at);
      continue;
    }
    spin_rule_.gave_up(now - moved_at);
    if (!sleep(done, deadline, how)) return false;
    patience = {};
    before = moved_at = Clock::now();
  }
  turn();  // frames that answer the last messages leave now, not when a thread drives again
  return true;
}

bool Reactor::drive_until(const std::function<bool()>& done, Deadline deadline) {
  if (done()) return true;
  check_may_wait("a wait");
  ++waiters_;
  std::unique_lock lock(mutex_);
  while (!done() && !deadline.passed()) {
    if (!driven_) {
      {
        const Baton baton(*this, lock);
        drive(done, deadline, options_.spin, Sleep::keeps_baton);
      }
      last_caller_ = Clock::now();
    } else {
      wake_if_asleep();  // the communication thread hands the baton over to this waiting thread
      waiters_changed_.wait_until(
          lock, deadline.is_never() ? Clock::now() + std::chrono::seconds(1) : deadline.moment());
    }
  }
  --waiters_;
  if (!driven_ && waiters_ > 0) waiters_changed_.notify_all();
  return done();
}

bool Reactor::callers_drive() const {
  return Clock::now() < last_caller_.load(std::memory_order_relaxed) + kPark;
}

void Reactor::communicate() {
  std::unique_lock lock(mutex_);
  std::chrono::milliseconds time = kPark;
  int looks = 0;  // in vain
  while (!stopping_) {
    if (std::exchange(caller_tried_, false)) last_caller_ = Clock::now();
    if (driven_ || waiters_ > 0 || callers_drive()) {
      park(lock, time);
      if (++looks % kLooksOfOneLength == 0) time = std::min(2 * time, kLongestPark);
      continue;
    }
    time = kPark;
    looks = 0;
    take_baton(lock);
    const bool has_baton =
        drive([this] { return waiters_ > 0 || callers_drive() || stopping_; }, Deadline::never(),
              std::chrono::microseconds(0), Sleep::lends_baton);
    if (has_baton) drop_baton(lock);
    else lock.lock();
  }
}

// Short calls pay no wake-up. A thread that has driven for long pays one, because looking again and
// again while it sleeps would burn a part of a core.
void Reactor::park(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds time) {
  const std::uint64_t drive = drives_;
  communicator_changed_.wait_for(lock, time);
  if (!driven_ || drives_ != drive || time < kLongestPark || stopping_) return;
  parked_ = true;
  communicator_changed_.wait(lock, [this] { return !parked_ || stopping_; });
}

}  // namespace paceline::transport
