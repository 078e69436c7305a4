// Tickets: the parts of an epoch, dealt out to the ranks of a group as fast as each works.
//
//   Tickets tickets(group, parts);
//   for (each epoch) while (const auto part = tickets.next()) work_on(*part);
//
// In each epoch every part in 0..parts-1 goes to one rank, once. Beside collectives of the same
// group, ranks take different numbers of parts: use it with methods that wait for nobody.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/coordination/ticket_machine.h"

namespace paceline {
namespace coordination {
class MachineRun;
}

// THREAD: one that trains. It ends before its Job; all ranks take equally many epochs.
class Tickets {
 public:
  // Blocks; every rank of the group calls it, with the same number of parts.
  Tickets(Communicator& group, std::int64_t parts);
  ~Tickets();

  // The next part; nothing when the epoch has ended, after which the next call begins another. The
  // part after it is asked for in the background. THROWS Error: peer_lost (rank 0 has ended its
  // Tickets, or a rank has died), timed_out.
  std::optional<std::int64_t> next();
  std::uint32_t epoch() const { return machine_.epoch(); }  // from 0

 private:
  coordination::TicketMachine machine_;
  const std::unique_ptr<coordination::MachineRun> run_;
  const int dealer_;  // its rank in the world
};

}  // namespace paceline
