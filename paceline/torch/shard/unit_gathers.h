// Gathers units: each rank brings its piece, and all have the whole unit.
//
// If whole units stay in memory (zero_stage 1 and 2), all are gathered after each step. Else (stage
// 3) a unit is gathered before its first use, or some uses ahead of it in the order that the last
// step showed, and emptied when the next one begins. The root stays from its first use to the end
// of the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/shard/unit_memory.h"

namespace paceline::shard {

// For tests and texts: the events of a step in their order.
struct UnitEvent {
  enum class Kind : std::uint8_t { gather, begin, empty } kind;
  std::size_t unit;
  bool operator==(const UnitEvent&) const = default;
};

// All ranks make the same calls with the same units. THREAD: one. THROWS Error, from every call:
// mismatch that names the units, when ranks use them in different orders; what ended the
// communication.
class UnitGathers {
 public:
  // `group` is for gathers alone. `ahead`: the number of units that are gathered before their use.
  UnitGathers(const Units& units, UnitMemory& memory, Communicator& group, bool stay_whole,
              int ahead);
  // Operations may be under way when it is destroyed.
  ~UnitGathers() = default;
  UnitGathers(const UnitGathers&) = delete;
  UnitGathers& operator=(const UnitGathers&) = delete;

  // An operator is about to read these units: they are whole when it returns. `in_training`: the
  // use belongs to a step's order.
  bool are_ready(const std::vector<std::size_t>& units) const;
  void begin(const std::vector<std::size_t>& units, bool in_training);
  // Another forward pass begins after a backward pass, so that no unit is in use.
  void begin_pass();
  // The unit's gradients are made.
  void finished(std::size_t unit);
  // Takes part in the gathers of the present step that this rank has not asked for.
  void take_part_in_rest();

  // Starts gathers of all units that are not whole.
  void start_all();
  void wait_for_all();
  // The pieces are about to change, so no unit is whole.
  void forget();
  // A step is over.
  void end_step();
  // While true, all units are whole, and stay.
  void hold(bool held);
  bool is_held() const { return is_held_; }
  // Gathering has failed: numbers that are read from here on are NaN.
  void poison(const std::vector<std::size_t>& units);

  int gathers() const { return gathers_; }  // of the last step
  double gathered_bytes() const { return gathered_bytes_; }
  const std::vector<UnitEvent>& events() const { return last_events_; }
  bool gathers_ahead() const { return ahead_ > 0; }

 private:
  enum class State : std::uint8_t { absent, coming, whole };

  bool is_in_use(std::size_t unit) const;
  void start(std::size_t unit);
  void wait(std::size_t unit);
  void empty(std::size_t unit);
  void use_one(std::size_t unit, bool in_training);
  void follow(std::size_t unit);
  std::size_t tell_use(std::size_t use);
  void take_part_in(std::size_t unit);
  void start_ahead();
  void tell(UnitEvent::Kind kind, std::size_t unit);
  [[noreturn]] void explain(const Error& error, std::size_t unit) const;

  const Units& units_;
  UnitMemory& memory_;
  Communicator& group_;
  const bool stay_whole_;
  int ahead_;
  std::vector<State> states_;        // by unit
  std::vector<Work> works_;          // by unit
  std::vector<std::size_t> in_use_;  // whole for the last operator, without the root
  std::vector<std::size_t> order_;   // of the present step's uses
  std::optional<std::vector<std::size_t>> last_order_;
  std::size_t place_ = 0;  // in the last order: that of the next use
  bool is_held_ = false, has_changed_ = false;
  int gathers_ = 0, now_gathers_ = 0;
  double gathered_bytes_ = 0, now_bytes_ = 0;
  std::vector<UnitEvent> events_, last_events_;
};

}  // namespace paceline::shard
