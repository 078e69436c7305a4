#include "paceline/core/coordination/pause_point.h"

#include <fmt/format.h>

#include <utility>

namespace paceline::coordination {

PausePoint::PausePoint(Communicator& group)
    : group_(group), machine_(group.rank(), group.size()), run_(group, machine_) {}

template <typename Done>
void PausePoint::wait(const char* what, const char* lacking, const Done& done) {
  run_.wait(what, [&] { return done() || machine_.missing(); },
            {.ask = [this] { run_.tell(machine_.ask_who_is_missing()); },
             .are_answered = [this] { return machine_.missing_ranks().are_known(); },
             .awaited = [&] { return machine_.missing_ranks().awaited(group_, lacking); }});
  if (done()) return;
  job::check_alive(run_.links());
  const int missing = group_.world_rank(*machine_.missing());
  throw Error({Fault::peer_lost,
               fmt::format("rank {} has ended while others waited in {}: all ranks must end "
                           "together, after Checkpoints::finish()",
                           missing, what),
               {missing}});
}

Pause PausePoint::come(std::int64_t step) {
  run_.tell(machine_.come(step));
  wait("a save of all ranks",
       "stood still for it (it may be in an operation that all ranks make: call "
       "Checkpoints::wait_for_all_ranks() before it)",
       [this] { return machine_.has_paused(); });
  return machine_.take();
}

std::optional<Pause> PausePoint::at_step(std::int64_t step) {
  if (!machine_.is_called()) return std::nullopt;
  return come(step);
}

Pause PausePoint::call(std::uint32_t reasons, std::int64_t step) {
  run_.tell(PauseMachine::ask(reasons));
  wait("the call of a save of all ranks", "come to it", [this] { return machine_.is_called(); });
  return come(step);
}

std::optional<Pause> PausePoint::wait_for_pause(std::int64_t step) {
  if (!std::exchange(is_waiting_, true)) run_.tell(machine_.wait_for_pause());
  wait("the end of all ranks' steps", "ended its own",
       [this] { return machine_.is_wait_over() || machine_.is_called(); });
  if (!machine_.is_wait_over()) return come(step);
  is_waiting_ = false;
  return std::nullopt;
}

}  // namespace paceline::coordination
