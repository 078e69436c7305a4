#include "paceline/core/collective/call/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/log.h"
#include "paceline/core/collective/call/work_state.h"

namespace paceline {
namespace {

// A caller that waits this soon after its call does not compute meanwhile: it drives.
constexpr std::chrono::nanoseconds kAtOnce = std::chrono::microseconds(100);

// The driver goes on, whatever a callback throws.
void call_back(const std::function<void(const Result<>&)>& callback, const Result<>& result) {
  try {
    callback(result);
  } catch (const std::exception& error) {
    warn(fmt::format("a callback of Work::on_done threw: {}", error.what()));
  } catch (...) {
    warn("a callback of Work::on_done threw");
  }
}

}  // namespace

Failure in_operation(const std::string& description, Failure failure) {
  const bool is_told = failure.what.find(description) != std::string::npos;
  if (failure.fault == Fault::peer_lost && !is_told)
    failure.what = fmt::format("{}: {}", description, failure.what);
  return failure;
}

void Work::State::wait(Deadline deadline) {
  if (done()) {
    if (TraceLog::now() - begin_ns_ < kAtOnce.count()) reactor_->note_caller();
  } else {
    reactor_->check_may_wait("wait()");
    const TraceScope scope(reactor_->trace(), TraceLane::waiting, description);
    reactor_->status().wait_began(description);
    const auto begin = Clock::now();
    const bool ended = reactor_->drive_until([this] { return done(); }, deadline);
    const std::int64_t waited = (Clock::now() - begin).count();
    waited_->fetch_add(waited, std::memory_order_relaxed);
    reactor_->status().wait_ended(waited);
    if (!ended)
      throw Error(
          {Fault::timed_out,
           fmt::format("{} is not done at the deadline of this wait; it goes on", description),
           {}});
  }
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(in_operation(description, *failure_));
}

void Work::State::order(void* stream) {
  const std::lock_guard lock(mutex_);
  if (done()) return;
  if (!order_)
    throw_misuse(
        fmt::format("order(): the buffers of {} lie on the host; call wait()", description));
  if (auto ordered = order_(stream); !ordered) throw Error(ordered.error());
}

void Work::State::on_done(std::function<void(const Result<>&)> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!done()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(failure_ ? Result<>(*failure_) : Result<>(Done{}));
}

void Work::State::keep(std::any what) {
  const std::lock_guard lock(mutex_);
  if (!done()) kept_.push_back(std::move(what));
}

void Work::State::finish(std::optional<Failure> failure) {
  if (const auto detour = std::exchange(detour_, {}); detour && detour(failure)) return;
  if (TraceLog& trace = reactor_->trace(); trace.enabled()) {
    trace.record({TraceLane::operations, description, begin_ns_, TraceLog::now()});
  }
  reactor_->status().operation_ended();
  std::vector<std::function<void(const Result<>&)>> callbacks;
  std::vector<std::any> kept;
  std::function<void()> release;  // is destroyed without the lock, as the others
  // First: once wait() has returned, no stream waits for this any more.
  if (release_) release_();
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    callbacks.swap(callbacks_);
    kept.swap(kept_);
    release.swap(release_);
    order_ = nullptr;
    done_.store(true, std::memory_order_release);
  }
  reactor_->note_completion();
  const Result<> result = failure_ ? Result<>(*failure_) : Result<>(Done{});
  for (const auto& callback : callbacks) call_back(callback, result);
}

bool Work::done() const {
  return !state_ || state_->done();
}

void Work::wait(Deadline deadline) const {
  if (state_) state_->wait(deadline);
}

void Work::order(void* stream) const {
  if (state_) state_->order(stream);
}

void Work::on_done(std::function<void(const Result<>&)> callback) const {
  if (state_) state_->on_done(std::move(callback));
  else callback(Done{});
}

void Work::keep(std::any what) const {
  if (state_) state_->keep(std::move(what));
}

double Work::total_weight() const {
  if (!state_) return total_weight_;
  return done() ? state_->total_weight : 0;
}

Work Work::over_at_once(int ranks) {
  Work work;
  work.total_weight_ = ranks;
  return work;
}

Bytes Work::note(int rank) const {
  if (!state_ || !done() || static_cast<std::size_t>(rank) >= state_->notes.size()) return {};
  return state_->notes[static_cast<std::size_t>(rank)];
}

int Work::source() const {
  return state_ && done() ? state_->source : -1;
}

Work Work::all_of(std::vector<Work> parts) {
  std::erase_if(parts, [](const Work& part) { return !part.state_; });
  if (parts.empty()) return {};
  const State& first = *parts[0].state_;
  const auto whole = std::make_shared<State>(first.reactor(), first.waited());
  whole->description = fmt::format("{} operations, the first {}", parts.size(), first.description);
  struct Rest {
    std::mutex mutex;
    std::size_t count;
    std::vector<std::optional<Failure>> failures;  // by part
  };
  const auto rest = std::make_shared<Rest>();
  rest->count = parts.size();
  rest->failures.resize(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].on_done([whole, rest, i](const Result<>& result) {
      {
        const std::lock_guard lock(rest->mutex);
        if (!result) rest->failures[i] = result.error();
        if (--rest->count > 0) return;
      }
      const auto failed = std::ranges::find_if(
          rest->failures, [](const auto& failure) { return failure.has_value(); });
      const auto failure = failed == rest->failures.end() ? std::nullopt : *failed;
      // On the driver, which alone may finish a work; this may be the caller, when all were done
      // already.
      whole->reactor()->post([whole, failure] { whole->finish(failure); });
    });
  }
  return Work(whole);
}

}  // namespace paceline
