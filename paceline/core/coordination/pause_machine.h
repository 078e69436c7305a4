// PauseMachine: brings ranks that do not wait for each other to a pause together, when one of them
// asks: for a save, or the end of the run.
//
// Rank 0 calls all ranks. Each comes at the end of the step that it makes, and waits; when all have
// come, rank 0 lets them go on, with one decision for all. A rank that has no step to make waits
// for pauses: it comes to each that is called meanwhile, and goes on when all ranks wait so. An
// operation that all ranks make, which stands behind such a wait, never keeps one from a pause. The
// network must keep the order of the messages between two ranks, and neither lose nor double any.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "paceline/core/coordination/missing_ranks.h"
#include "paceline/core/machine/machine.h"

namespace paceline::coordination {

// The decision of a pause, alike on all ranks.
struct Pause {
  std::uint32_t reasons = 0;  // those of all ranks that have asked; the caller defines the bits
  std::int64_t step = 0;      // the largest that a rank has told
  bool operator==(const Pause&) const = default;
};

// THREAD: the on_... methods on the driver, the others on any; a mutex guards the state.
class PauseMachine final : public machine::Machine {
 public:
  PauseMachine(int rank, int ranks);

  // --- the training: it tells these messages to its run, and then waits ---

  // This rank wants a pause: wait until is_called(), and come.
  static machine::Message ask(std::uint32_t reasons);
  // A pause is called to which this rank has not come.
  bool is_called() const;
  // This rank stands still after its step: wait until has_paused(). REQUIRES: is_called().
  machine::Message come(std::int64_t step);
  // All ranks stand still.
  bool has_paused() const;
  // The decision. REQUIRES: has_paused(); once for each come().
  Pause take();
  // This rank waits for pauses until is_wait_over(), and comes to each that is called meanwhile.
  // Told once for each wait.
  machine::Message wait_for_pause();
  bool is_wait_over() const;
  // A rank that has ended though others wait for it. Ask for it last.
  std::optional<int> missing() const;
  // This rank waits long. Tell it to the run: rank 0 answers for whom, see missing_ranks().
  machine::Message ask_who_is_missing();
  MissingRanks missing_ranks() const;

  // --- machine ---

  // A rank tells itself the first four, and passes them on to rank 0. kStill answers kWho.
  enum Kind : std::uint32_t {
    kAsk = 1,
    kHere,
    kWait,
    kWho,
    kCall,
    kGo,
    kWaitOver,
    kMissing,
    kStill
  };
  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  machine::Actions hear(int from, const machine::Message& message);
  machine::Actions to_all(const machine::Message& message) const;
  std::vector<int> still_missing() const;
  void append_decisions(machine::Actions& actions);

  const int rank_, ranks_;
  mutable std::mutex mutex_;                                    // guards all that follows
  std::uint32_t called_ = 0, come_ = 0, gone_ = 0, taken_ = 0;  // pauses, counted
  Pause pause_;                                                 // the last that is gone
  std::uint32_t waits_ = 0, waits_over_ = 0;
  std::optional<int> missing_;
  MissingRanks missing_ranks_;

  // --- on rank 0 ---
  bool is_open_ = false;  // a pause is called, and not all have come
  Pause open_;
  std::vector<bool> here_, waiting_, ended_;  // by rank
  bool has_told_missing_ = false;
};

}  // namespace paceline::coordination
