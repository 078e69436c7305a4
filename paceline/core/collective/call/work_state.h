// The state that the copies of a Work share.
#pragma once

#include <any>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/collective/call/work.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline {

// A loss ends every operation in flight, with one text for all. The caller is told which one it
// was, unless the text names it.
Failure in_operation(const std::string& description, Failure failure);

class Work::State {
 public:
  explicit State(std::shared_ptr<transport::Reactor> reactor,
                 std::shared_ptr<std::atomic<std::int64_t>> waited)
      : reactor_(std::move(reactor)), waited_(std::move(waited)), begin_ns_(TraceLog::now()) {
    reactor_->status().operation_began();
  }

  bool done() const { return done_.load(std::memory_order_acquire); }
  void wait(Deadline deadline);
  void order(void* stream);
  void on_done(std::function<void(const Result<>&)> callback);
  void keep(std::any what);

  // THREAD: driver; once, or once more after a detour.
  void finish(std::optional<Failure> failure);
  // finish() calls it first, once. True: the operation is not over yet, and finish() will be called
  // again. Set before the operation may end.
  void detour(std::function<bool(const std::optional<Failure>&)> detour) {
    detour_ = std::move(detour);
  }

  // The buffers lie on a device: `order` makes a stream wait until `release` is called, which is
  // when the operation has ended. Set before that may be.
  void runs_on_device(std::function<Result<>(void*)> order, std::function<void()> release) {
    order_ = std::move(order);
    release_ = std::move(release);
  }

  // Set on the driver before finish; read by callers once done.
  double total_weight = 0;
  std::vector<std::vector<std::byte>> notes;
  int source = -1;
  std::string description;  // set before the work is handed out: "all_reduce f32[10] sum"

  const std::shared_ptr<transport::Reactor>& reactor() const { return reactor_; }
  const std::shared_ptr<std::atomic<std::int64_t>>& waited() const { return waited_; }

 private:
  std::shared_ptr<transport::Reactor> reactor_;
  // Nanoseconds that callers of the group spent in wait.
  std::shared_ptr<std::atomic<std::int64_t>> waited_;
  const std::int64_t begin_ns_;
  std::function<bool(const std::optional<Failure>&)> detour_;
  std::function<Result<>(void*)> order_;  // until it is done
  std::function<void()> release_;
  std::atomic<bool> done_ = false;
  std::mutex mutex_;
  std::optional<Failure> failure_;
  std::vector<std::function<void(const Result<>&)>> callbacks_;
  std::vector<std::any> kept_;
};

}  // namespace paceline
