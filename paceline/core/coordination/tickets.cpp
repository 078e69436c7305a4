#include "paceline/core/coordination/tickets.h"

#include <fmt/format.h>

#include "paceline/core/coordination/machine_run.h"

namespace paceline {

using coordination::Awaited;

Tickets::Tickets(Communicator& group, std::int64_t parts)
    : machine_(group.rank(), group.size(), parts),
      run_(std::make_unique<coordination::MachineRun>(group, machine_)),
      dealer_(group.world_rank(0)) {}

Tickets::~Tickets() = default;

std::optional<std::int64_t> Tickets::next() {
  run_->tell(machine_.want());
  const auto awaited = [this] {
    Awaited rank_0;
    rank_0.lacks(dealer_, fmt::format("dealt out the next part of epoch {}", machine_.epoch()));
    return rank_0;
  };
  run_->wait("Tickets::next()", [this] { return machine_.is_settled(); }, {.awaited = awaited});
  if (machine_.is_forsaken()) {
    job::check_alive(run_->links());
    throw Error({Fault::peer_lost,
                 fmt::format("rank {}, which deals out the parts, has ended its Tickets in or "
                             "before epoch {}; all ranks must take equally many epochs",
                             dealer_, machine_.epoch()),
                 {dealer_}});
  }
  const auto part = machine_.take();
  if (part) run_->tell(machine_.want());
  return part;
}

}  // namespace paceline
