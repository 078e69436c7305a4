// WaitWatch: ends waits that nothing can end, because ranks wait for each other in different calls.
//
// A Communicator compares the calls that ranks make on it. Ranks that wait on different
// Communicators of one training are seen here: where a call is not over soon, ranks tell each other
// where they stand (standstill_machine.h). Until then watching costs a count for each call.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/torch/replica/watch/standstill_machine.h"

namespace paceline::replica {

// THREAD: one, which makes all calls that are watched.
class WaitWatch {
 public:
  enum class Lane : std::uint8_t { facts, gathers, pieces, layers, calls };
  // A wait that is longer is told to the other ranks.
  static constexpr std::chrono::milliseconds kPatience{300};

  // Collective. `group` outlives this.
  explicit WaitWatch(Communicator& group);
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;

  // Makes the next call of this rank on a lane of the group. THROWS Error: as begin(), or mismatch
  // because ranks stand still.
  template <typename Begin>
  Work call(Lane lane, const Begin& begin) {
    ++calls_[static_cast<std::size_t>(lane)];
    try {
      return begin();
    } catch (const Error&) {
      throw_verdict();
      throw;
    }
  }
  // The number of calls so far: of the one that was made last.
  std::int64_t calls(Lane lane) const { return calls_[static_cast<std::size_t>(lane)]; }

  // Waits for a call. `where()` tells in which, for texts: "for the gather of 'blocks.0'". THROWS
  // Error: what has ended the call, or mismatch because ranks stand still.
  template <typename Where>
  void wait(const Work& work, Lane lane, std::int64_t call, const Where& where) {
    if (!is_soon_over(work)) wait_long(work, lane, call, where());
  }

 private:
  bool is_soon_over(const Work& work) const;
  void wait_long(const Work& work, Lane lane, std::int64_t call, std::string where);
  void throw_verdict() const;

  Communicator& group_;
  StandstillMachine machine_;
  coordination::MachineRun run_;
  std::array<std::int64_t, 5> calls_ = {};  // by lane
};

// One lane, or none: where nobody watches, calls are made and waited for as they are.
class WatchedLane {
 public:
  struct Call {
    Work work = {};
    std::int64_t number = 0;
  };
  WatchedLane() = default;
  WatchedLane(WaitWatch* watch, WaitWatch::Lane lane) : watch_(watch), lane_(lane) {}

  template <typename Begin>
  Call call(const Begin& begin) const {
    if (watch_ == nullptr) return {.work = begin()};
    Work work = watch_->call(lane_, begin);
    return {.work = std::move(work), .number = watch_->calls(lane_)};
  }
  template <typename Where>
  void wait(const Call& call, const Where& where) const {
    if (watch_ == nullptr) call.work.wait();
    else watch_->wait(call.work, lane_, call.number, where);
  }

 private:
  WaitWatch* watch_ = nullptr;
  WaitWatch::Lane lane_ = WaitWatch::Lane::facts;
};

}  // namespace paceline::replica
