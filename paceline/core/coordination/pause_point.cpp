#include "paceline/core/coordination/pause_point.h"

#include <fmt/format.h>

#include <utility>

namespace paceline::coordination {

PausePoint::PausePoint(Communicator& group)
    : group_(group), machine_(group.rank(), group.size()), run_(group, machine_) {}

template <typename Done>
void PausePoint::wait(const char* what, const Done& done) {
  run_.wait(what, [&] { return done() || machine_.missing(); });
  if (done()) return;
  const int missing = group_.world_rank(*machine_.missing());
  throw Error({Fault::peer_lost,
               fmt::format("rank {} has ended while others waited for {}: all ranks must end "
                           "together, after Checkpoints::finish()",
                           missing, what),
               {missing}});
}

Pause PausePoint::come(std::int64_t step) {
  run_.tell(machine_.come(step));
  wait(
      "all ranks to stand still for a save (a rank that does not come may be in an operation that "
      "all ranks make: call Checkpoints::wait_for_all_ranks() before it)",
      [this] { return machine_.has_paused(); });
  return machine_.take();
}

std::optional<Pause> PausePoint::at_step(std::int64_t step) {
  if (!machine_.is_called()) return std::nullopt;
  return come(step);
}

Pause PausePoint::call(std::uint32_t reasons, std::int64_t step) {
  run_.tell(PauseMachine::ask(reasons));
  wait("rank 0 to call all ranks to a save", [this] { return machine_.is_called(); });
  return come(step);
}

std::optional<Pause> PausePoint::wait_for_pause(std::int64_t step) {
  if (!std::exchange(is_waiting_, true)) run_.tell(machine_.wait_for_pause());
  wait("all ranks to end their steps",
       [this] { return machine_.is_wait_over() || machine_.is_called(); });
  if (!machine_.is_wait_over()) return come(step);
  is_waiting_ = false;
  return std::nullopt;
}

}  // namespace paceline::coordination
