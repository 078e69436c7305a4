// Gathers units: each rank brings its piece, and all have the whole unit.
//
// If whole units stay in memory (zero_stage 1 and 2), all are gathered after each step. Else (stage
// 3) a unit is gathered before its first use, or some uses ahead of it in the order that the last
// step showed, and emptied when the next one begins. The root stays from its first use to the end
// of the step. What an evaluation gathers is no part of the step: it is emptied before training
// goes on, so that the step's order is the same with it as without.
//
// A rank without a batch takes part in the gathers of the others. Where it cannot know what they
// use next (in the first step, and whenever some rank has no batch) each use is told before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/replica.h"
#include "paceline/torch/shard/unit_memory.h"
#include "paceline/torch/shard/use_order.h"

namespace paceline::shard {

// For tests and texts: the events of a step in their order.
struct UnitEvent {
  enum class Kind : std::uint8_t { gather, begin, empty } kind;
  std::size_t unit;
  bool operator==(const UnitEvent&) const = default;
};

// A unit is read by a forward or backward pass of a step, or by anything else.
enum class UnitUse : std::uint8_t { training, evaluation };

// Ranks tell each other these facts beside the gathers, on the training's group.
struct GatherFacts {
  // Whether some rank has no batch in this step, after its first use.
  std::function<bool()> has_shadows;
  // This rank is about to read parameters outside of training, this unit first; and the end of it.
  std::function<replica::WatchedLane::Call(std::size_t unit)> tell_reading;
  std::function<void(const replica::WatchedLane::Call& told)> wait_for_reading;
};

// All ranks make the same calls with the same units. THREAD: one. THROWS Error, from every call:
// mismatch that names the units, when ranks use them in different orders; what ended the
// communication.
class UnitGathers {
 public:
  // `group` is for gathers alone, and `lane` watches them. `ahead`: the number of units that are
  // gathered before their use.
  UnitGathers(const Units& units, UnitMemory& memory, Communicator& group,
              const replica::WatchedLane& lane, bool stay_whole, int ahead, GatherFacts facts);
  // Operations may be under way when it is destroyed.
  ~UnitGathers() = default;
  UnitGathers(const UnitGathers&) = delete;
  UnitGathers& operator=(const UnitGathers&) = delete;

  // An operator is about to read these units: they are whole when it returns.
  bool are_ready(const std::vector<std::size_t>& units, UnitUse use) const;
  void begin(const std::vector<std::size_t>& units, UnitUse use);
  // Units that evaluations have gathered are gathered anew at their next use.
  void end_evaluation();
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

  // Adds to the text of a mismatch which units the ranks gathered, and what for, where it tells.
  void explain(Failure& failure) const;
  // " after its use of 'blocks.0'", for texts; empty before the first one.
  std::string last_use() const;
  int gathers() const { return gathers_; }  // of the last step
  double gathered_bytes() const { return gathered_bytes_; }
  const std::vector<UnitEvent>& events() const { return last_events_; }
  // In the next step.
  bool gathers_ahead() const { return ahead_ > 0 && order_.is_known() && order_.is_steady(); }

 private:
  enum class State : std::uint8_t { absent, coming, whole };

  // For texts and checks: what a gather is for.
  enum class Purpose : std::uint8_t { training, evaluation, gathered };

  bool is_in_use(std::size_t unit) const;
  void leave(const std::vector<std::size_t>& units);
  void start(std::size_t unit, Purpose purpose);
  void wait(std::size_t unit);
  void empty(std::size_t unit);
  void train_on(std::size_t unit);
  void evaluate(const std::vector<std::size_t>& units);
  void order_has_changed(std::size_t unit, std::optional<std::size_t> expected);
  std::size_t tell_use(std::size_t use);
  void take_part_in(std::size_t unit);
  void start_ahead();
  void tell(UnitEvent::Kind kind, std::size_t unit);
  Dtype type_of(std::size_t unit, Purpose purpose) const;
  std::string gather_of(std::size_t unit, Purpose purpose) const;
  std::vector<std::string> gathers_in(const std::string& text) const;

  const Units& units_;
  UnitMemory& memory_;
  Communicator& group_;
  const bool stay_whole_;
  const int ahead_;
  const replica::WatchedLane lane_;
  const GatherFacts facts_;
  std::vector<State> states_;                      // by unit
  std::vector<Purpose> purposes_;                  // by unit: of its last gather
  std::vector<replica::WatchedLane::Call> calls_;  // by unit
  std::vector<std::size_t> in_use_;     // whole for the last operator of training, and the root
  std::vector<std::size_t> evaluated_;  // whole for evaluation alone
  std::optional<std::size_t> last_;     // unit that an operator read
  UseOrder order_;
  bool is_told_ = true;  // each use of this step
  bool has_warned_ = false, is_held_ = false;
  int gathers_ = 0, now_gathers_ = 0;
  double gathered_bytes_ = 0, now_bytes_ = 0;
  std::vector<UnitEvent> events_, last_events_;
};

}  // namespace paceline::shard
