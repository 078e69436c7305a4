// PausePoint: where ranks that do not wait for each other stand still together, when one of them
// asks.
//
//   PausePoint pauses(group);
//   for (each step) { ...; if (const auto pause = pauses.at_step(step)) save(pause->step); }
//   while (const auto pause = pauses.wait_for_pause(step)) save(pause->step);
//   all_reduce(...);   // an operation that all ranks make stands behind such a wait
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/coordination/pause_machine.h"

namespace paceline::coordination {

// Steps never go down on a rank. THREAD: one that trains. It ends before its Job, on all ranks
// after equally many waits for pauses. THROWS Error, from the calls that wait: peer_lost, a rank
// has ended its PausePoint; timed_out, a rank did not come; what ended the generation.
class PausePoint {
 public:
  // Every rank of the group calls it.
  explicit PausePoint(Communicator& group);

  // A pause is called to which this rank has not come: at_step() would wait.
  bool is_called() const { return machine_.is_called(); }
  // At the end of a step. Nothing: no pause is called, and nobody waited. Otherwise it waits until
  // all ranks stand still, which they do until their caller goes on.
  std::optional<Pause> at_step(std::int64_t step);
  // This rank asks for a pause, for its reasons; all ranks stand still when it returns.
  Pause call(std::uint32_t reasons, std::int64_t step);
  // This rank has no step to make, and waits until no rank has. A pause that is called meanwhile is
  // returned: wait again after it.
  std::optional<Pause> wait_for_pause(std::int64_t step);

 private:
  Pause come(std::int64_t step);
  // Blocks in `what` until done(), for those that have not `lacking`.
  template <typename Done>
  void wait(const char* what, const char* lacking, const Done& done);

  Communicator& group_;
  PauseMachine machine_;
  MachineRun run_;
  bool is_waiting_ = false;  // also in a pause that was called meanwhile
};

}  // namespace paceline::coordination
