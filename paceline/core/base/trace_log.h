// Records spans of time on this rank, which observe renders for people.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace paceline {

// The lane in which a span is drawn. Spans of one lane nest or follow each other, except
// operations, of which several are in flight.
enum class TraceLane : std::uint8_t {
  training,    // computation of the training thread
  waiting,     // its waits for operations
  operations,  // operations in flight
  stages,      // forwards and backwards of a pipeline's stages, which the training thread computes
};

struct TraceSpan {
  TraceLane lane = TraceLane::training;
  std::string name;
  std::int64_t begin_ns = 0;  // on this host's steady clock
  std::int64_t end_ns = 0;
  bool operator==(const TraceSpan&) const = default;
};

// Records nothing until it is enabled; then a span costs a lock and a move. A full log counts the
// spans that it drops. THREAD: all methods from any thread.
class TraceLog {
 public:
  static constexpr std::size_t kMostSpans = std::size_t{1} << 20;

  static std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  void enable() { enabled_.store(true, std::memory_order_relaxed); }
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  void record(TraceSpan span);    // dropped while not enabled
  std::vector<TraceSpan> take();  // in the order of their ends
  std::size_t dropped() const;

 private:
  std::atomic<bool> enabled_ = false;
  mutable std::mutex mutex_;
  std::vector<TraceSpan> spans_;
  std::size_t dropped_ = 0;
};

// Records the time from here to the end of the scope.
class TraceScope {
 public:
  TraceScope(TraceLog& log, TraceLane lane, std::string name);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceLog& log_;
  TraceSpan span_;
};

}  // namespace paceline
