// HaltMachine: brings ranks that do not wait for each other to a halt together, when one of them
// asks: for a save, or the end of the run.
//
// Rank 0 calls all ranks. Each comes at the end of the step that it makes, and waits; when all have
// come, rank 0 lets them go on, with one decision for all. A rank that has no step to make rests:
// it comes to each halt that is called meanwhile, and goes on when all ranks rest. So an operation
// that all ranks make, which stands behind a rest, never keeps one from a halt. The network must
// keep the order of the messages between two ranks, and neither lose nor double any.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "paceline/core/machine/machine.h"

namespace paceline::coordination {

// The decision of a halt, alike on all ranks.
struct Halt {
  std::uint32_t reasons = 0;  // those of all ranks that have asked; the caller defines the bits
  std::int64_t step = 0;      // the largest that a rank has told
  bool operator==(const Halt&) const = default;
};

// THREAD: the on_... methods on the driver, the others on any; a mutex guards the state.
class HaltMachine final : public machine::Machine {
 public:
  HaltMachine(int rank, int ranks);

  // --- the training: it tells these messages to its port, and then waits ---

  // This rank wants a halt: wait until is_called(), and come.
  static machine::Message ask(std::uint32_t reasons);
  // A halt is called to which this rank has not come.
  bool is_called() const;
  // This rank stands still after its step: wait until has_halted(). REQUIRES: is_called().
  machine::Message come(std::int64_t step);
  // All ranks stand still.
  bool has_halted() const;
  // The decision. REQUIRES: has_halted(); once for each come().
  Halt take();
  // This rank rests, which it does until is_rest_over(), and comes to each halt that is called
  // meanwhile. Told once for each rest.
  machine::Message rest();
  bool is_rest_over() const;
  // A rank that has ended though others wait for it. Ask for it last.
  std::optional<int> missing() const;

  // --- machine ---

  // A rank tells itself the first three, and passes them on to rank 0.
  enum Kind : std::uint32_t { kAsk = 1, kHere, kRest, kCall, kGo, kRestOver, kMissing };
  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  machine::Actions hear(int from, const machine::Message& message);
  machine::Actions to_all(const machine::Message& message) const;
  void append_decisions(machine::Actions& actions);

  const int rank_, ranks_;
  mutable std::mutex mutex_;                                    // guards all that follows
  std::uint32_t called_ = 0, come_ = 0, gone_ = 0, taken_ = 0;  // halts, counted
  Halt halt_;                                                   // the last that is gone
  std::uint32_t rests_ = 0, rests_over_ = 0;
  std::optional<int> missing_;

  // --- on rank 0 ---
  bool is_open_ = false;  // a halt is called, and not all have come
  Halt open_;
  std::vector<bool> here_, resting_, ended_;  // by rank
  bool has_told_missing_ = false;
};

}  // namespace paceline::coordination
