// Halts: ranks that do not wait for each other stand still together, when one of them asks.
//
//   Halts halts(group);
//   for (each step) { ...; if (const auto halt = halts.at_step(step)) save(halt->step); }
//   while (const auto halt = halts.rest(step)) save(halt->step);
//   all_reduce(...);   // an operation that all ranks make stands behind a rest
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/coordination/halt_machine.h"
#include "paceline/core/coordination/machine_run.h"

namespace paceline {

// Steps never go down on a rank. THREAD: one that trains. It ends before its Job, on all ranks
// after equally many rests. THROWS Error, from the calls that wait: peer_lost, a rank has ended its
// Halts; timed_out, a rank did not come; what ended the generation.
class Halts {
 public:
  // Every rank of the group calls it.
  explicit Halts(Communicator& group);

  // At the end of a step. Nothing: no halt is called, and nobody waited. Otherwise it waits until
  // all ranks stand still, which they do until their caller goes on.
  std::optional<coordination::Halt> at_step(std::int64_t step);
  // This rank asks for a halt, for its reasons; all ranks stand still when it returns.
  coordination::Halt call(std::uint32_t reasons, std::int64_t step);
  // Waits until all ranks rest. A halt that is called meanwhile is returned: rest again after it.
  std::optional<coordination::Halt> rest(std::int64_t step);

 private:
  coordination::Halt come(std::int64_t step);
  template <typename Done>
  void wait(const char* what, const Done& done);

  Communicator& group_;
  coordination::HaltMachine machine_;
  coordination::MachineRun run_;
  bool is_resting_ = false;  // also in a halt that was called meanwhile
};

}  // namespace paceline
