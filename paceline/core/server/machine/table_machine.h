// TableMachine: all that one member does for a table of numbers (control/member_machine.h), whose
// parts are ranges.
#pragma once

#include "paceline/core/server/control/member_machine.h"
#include "paceline/core/server/machine/range_machine.h"
#include "paceline/core/server/machine/worker_machine.h"

namespace paceline::server {

struct TableParts {
  using Shape = TableShape;
  using Part = RangeMachine;
  using Worker = WorkerMachine;
  using Options = WorkerOptions;
  using Packet = server::Packet;
  using Entry = RangeEntry;
  static constexpr std::string_view kName = "table";
  static constexpr PacketKind kForWorkers = PacketKind::assigned, kDone = PacketKind::done;

  static std::uint32_t count(const TableShape& shape);
  static RangeMachine make(const TableShape& shape, std::uint32_t range, int own,
                           const Chain& chain, bool is_fresh);
  // A newcomer is a worker that the shape does not name.
  static bool has_worker(const TableShape& shape, int member, const WorkerOptions& options);
  static Result<Packet> parse(const machine::Message& message, const TableShape& shape);
  static std::uint32_t part_of(const Packet& packet) { return packet.range; }
  static machine::Message moved(std::uint32_t range);
};

extern template class MemberMachine<TableParts>;
using TableMachine = MemberMachine<TableParts>;

}  // namespace paceline::server
