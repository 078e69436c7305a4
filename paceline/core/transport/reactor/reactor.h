// The reactor owns a process's links and timers and runs everything that waits for them. It is
// driven by one thread at a time, the one that holds its baton: a thread that blocks in drive_until
// drives it itself; otherwise the process's one communication thread does (docs/threads.md tells
// why).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/trace_log.h"
#include "paceline/core/transport/memory/status_page.h"
#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/reactor/spin_rule.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::transport {

// A source of progress that no file descriptor announces, such as a ring in shared memory.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual bool poll() = 0;                // does what can be done now; returns whether anything was
  virtual bool flush() { return false; }  // sends what poll() has left unsent
  // While asleep, the peer must ring a bell that the poller hears.
  virtual void set_asleep(bool asleep) = 0;
};

struct ReactorOptions {
  // How long a blocked caller looks for progress before it sleeps. Sleeping and waking costs 5-50
  // us here, and a peer's piece of a long reduction takes about 100 us, so a bounded spin pays; the
  // caller yields the core between looks when `share_cores` (more ranks than cores). If data come
  // slowly, it looks for a shorter time: a few times as long as the last movement of data took
  // (docs/decisions/0017-short-links-are-not-paced.md).
  std::chrono::microseconds spin{500};
  bool share_cores = false;
};

class Reactor {
 public:
  explicit Reactor(ReactorOptions options = {});
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Ends the communication thread; afterwards callers may still drive. THREAD: not the driver.
  void stop();

  // THREAD: the driver's, or before anything drives.
  Poller& poller() { return poller_; }
  void add(Pollable& pollable);
  void remove(Pollable& pollable);
  // How many of them each look asks.
  std::size_t pollables() const { return pollables_.size(); }

  // Runs `task` on the driver, tasks in the order of their posts: right here when nobody drives,
  // else soon. THREAD: any.
  void post(std::function<void()> task);

  // Runs `task` on the driver and returns when it is done; what it throws is thrown here. THREAD:
  // any; the driver runs it at once.
  void run(const std::function<void()>& task);

  // Runs `task` on the calling thread as the driver, if nobody drives and nothing is posted; else
  // does nothing and returns false. For what is over sooner than a post: `task` must be short.
  // THREAD: any but the driver.
  template <typename Task>
  bool try_drive(Task task) {
    const Try baton(*this);
    if (baton.has_it) task();
    return baton.has_it;
  }

  // Drives, or waits while another thread does, until done() is true or the deadline has passed;
  // returns done(). `done` must be cheap and callable from any thread. THROWS: as
  // check_may_wait().
  bool drive_until(const std::function<bool()>& done, Deadline deadline);

  // A caller calls this that would drive now, if the communication thread had not already done
  // what it waits for: that thread leaves the driving to callers for a while. THREAD: any.
  void note_caller() { last_caller_ = Clock::now(); }

  // One look at everything but the poller and the posted tasks: for a task of try_drive that waits
  // for links. Returns whether anything moved. THREAD: driver.
  bool look();

  // A link calls this when it was given something to send: it is flushed before the look ends,
  // or at the next. What was waited for may have come with it, and then nobody drives on. THREAD:
  // driver.
  void note_unsent() { unsent_ = true; }

  // Yields the core if ranks share it, or spins were in vain (spin_rule.h), between two looks of a
  // thread that has found nothing for `waited`. THREAD: driver.
  void relax(std::chrono::nanoseconds waited = {});
  // A link whose look costs a system call looks again when this has changed: at each look, but
  // where ranks share cores only after a rest or a new task, for what comes next comes while others
  // work. THREAD: driver.
  std::uint64_t rests() const { return rests_; }
  // Such a link tells here when it begins and when it ceases to look. Where more than a few do, the
  // reactor asks the poller at each look, which is one system call, and they need not. THREAD:
  // driver.
  void note_looking(int links) { looking_ += links; }
  bool polls_each_time() const { return looking_ > kMostLooking; }

  // Whether the driver sleeps or is about to: set_asleep(true) was called. THREAD: driver.
  bool is_asleep() const { return asleep_.load(std::memory_order_relaxed); }

  // Code on the driver calls this when it makes some done() true: waiters that do not drive are
  // woken after this turn.
  void note_completion() { completed_ = true; }

  // For waits that begin from now on. THREAD: driver.
  void set_options(ReactorOptions options) { options_ = options; }

  // This rank's operations leave their spans here. THREAD: any.
  TraceLog& trace() { return trace_; }
  // Here they show what goes on now. THREAD: any.
  StatusPage& status() { return status_; }

  // THROWS Error (misuse) that names the call `what`, when this is the driver: a callback that
  // waits would wait for itself; or as check_process(). A call that waits for what it has lent of
  // its own frame asks first.
  void check_may_wait(std::string_view what) const;

  // False in a child of fork(), which has this reactor's memory but neither its thread nor its
  // links. There nothing is carried out: posted tasks are dropped, and it must not end.
  bool is_of_this_process() const { return forks_ == forks(); }
  // THROWS Error (misuse) in a child of fork().
  void check_process() const;

  bool driven_by_this_thread() const {
    return driver_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  // More looks would take longer than one of the poller.
  static constexpr int kMostLooking = 3;

  class Baton;  // held while it lives
  struct Try {  // the baton for a task of try_drive, given back however the task ends
    explicit Try(Reactor& r) : reactor(r), has_it(r.try_take_baton()) {}
    ~Try() {
      if (has_it) reactor.drop_baton_of_try();
    }
    Try(const Try&) = delete;
    Try& operator=(const Try&) = delete;
    Reactor& reactor;
    const bool has_it;
  };
  bool turn();  // one look at everything but the poller; returns whether anything moved
  // A thread that lends its baton while it sleeps may be without it afterwards: these return
  // whether it still has it.
  enum class Sleep : std::uint8_t { keeps_baton, lends_baton };
  bool sleep(const std::function<bool()>& done, Deadline until, Sleep how);
  bool drive(const std::function<bool()>& done, Deadline deadline, std::chrono::microseconds spin,
             Sleep how);
  bool doze(Deadline until);
  void set_asleep(bool asleep);
  bool callers_drive() const;  // of late
  void communicate();          // the communication thread
  // Keeps out of the callers' way for `time`, and for as long as one of them drives on.
  void park(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds time);
  void take_baton(std::unique_lock<std::mutex>& lock);  // unlocks
  void drop_baton(std::unique_lock<std::mutex>& lock);  // locks again
  void wake_if_asleep();
  bool try_take_baton();
  void drop_baton_of_try();

  const unsigned forks_;    // of its process
  ReactorOptions options_;  // the driver's
  Poller poller_;
  TraceLog trace_;
  StatusPage status_;
  std::vector<Pollable*> pollables_;

  std::mutex mutex_;
  std::condition_variable waiters_changed_, communicator_changed_;
  std::vector<std::function<void()>> tasks_;  // guarded by mutex_
  std::atomic<bool> has_tasks_ = false;
  bool driven_ = false;  // guarded by mutex_
  // The communication thread sleeps without the baton, and what comes wakes it; guarded by mutex_.
  bool dozes_ = false;
  std::atomic<Clock::time_point> last_caller_ = {};  // when a caller last drove, or would have
  bool caller_tried_ = false;  // one drove by try_drive since; guarded by mutex_
  std::uint64_t drives_ = 0;   // how often the baton was taken; guarded by mutex_
  bool parked_ = false;      // the communication thread waits until the baton is dropped; by mutex_
  unsigned tries_ = 0;       // the driver's
  std::uint64_t rests_ = 0;  // the driver's
  std::uint64_t polled_at_ = ~std::uint64_t{0};  // rests_ then; the driver's
  int looking_ = 0;                              // links; the driver's
  std::atomic<bool> stopping_ = false;
  std::atomic<int> waiters_ = 0;
  std::atomic<bool> asleep_ = false;
  std::atomic<std::thread::id> driver_ = {};
  bool completed_ = false;  // the driver's
  bool unsent_ = false;     // the driver's
  SpinRule spin_rule_;      // the driver's
  std::jthread communication_thread_;
};

}  // namespace paceline::transport
