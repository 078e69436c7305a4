#include "paceline/core/coordination/halts.h"

#include <fmt/format.h>

#include <utility>

namespace paceline {

using coordination::Halt;

Halts::Halts(Communicator& group)
    : group_(group), machine_(group.rank(), group.size()), run_(group, machine_) {}

template <typename Done>
void Halts::wait(const char* what, const Done& done) {
  run_.wait(what, [&] { return done() || machine_.missing(); });
  if (done()) return;
  const int missing = group_.world_rank(*machine_.missing());
  throw Error({Fault::peer_lost,
               fmt::format("rank {} has ended while others waited for {}: all ranks must end "
                           "together, after Checkpoints::finish()",
                           missing, what),
               {missing}});
}

Halt Halts::come(std::int64_t step) {
  run_.tell(machine_.come(step));
  wait(
      "all ranks to stand still for a save (a rank that does not come may be in an operation that "
      "all ranks make: call Checkpoints::rest() before it)",
      [this] { return machine_.has_halted(); });
  return machine_.take();
}

std::optional<Halt> Halts::at_step(std::int64_t step) {
  if (!machine_.is_called()) return std::nullopt;
  return come(step);
}

Halt Halts::call(std::uint32_t reasons, std::int64_t step) {
  run_.tell(coordination::HaltMachine::ask(reasons));
  wait("rank 0 to call all ranks to a save", [this] { return machine_.is_called(); });
  return come(step);
}

std::optional<Halt> Halts::rest(std::int64_t step) {
  if (!std::exchange(is_resting_, true)) run_.tell(machine_.rest());
  wait("all ranks to rest", [this] { return machine_.is_rest_over() || machine_.is_called(); });
  if (!machine_.is_rest_over()) return come(step);
  is_resting_ = false;
  return std::nullopt;
}

}  // namespace paceline
