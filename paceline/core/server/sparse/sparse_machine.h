// SparseMachine: all that one member does for a sparse table (control/member_machine.h), whose parts
// are shares.
#pragma once

#include "paceline/core/server/control/member_machine.h"
#include "paceline/core/server/sparse/share_machine.h"
#include "paceline/core/server/sparse/sparse_worker.h"

namespace paceline::server {

struct SparseParts {
  using Shape = SparseShape;
  using Part = ShareMachine;
  using Worker = SparseWorker;
  using Options = SparseWorkerOptions;
  using Packet = SparsePacket;
  using Entry = ShareChange;
  static constexpr std::string_view kName = "sparse table";
  static constexpr SparseKind kForWorkers = SparseKind::begun, kDone = SparseKind::done;

  static std::uint32_t count(const SparseShape& shape);
  static ShareMachine make(const SparseShape& shape, std::uint32_t share, int own,
                           const Chain& chain, bool is_fresh);
  static bool has_worker(const SparseShape& shape, int member, const SparseWorkerOptions&);
  static Result<Packet> parse(const machine::Message& message, const SparseShape& shape);
  static std::uint32_t part_of(const Packet& packet) { return packet.share; }
  static machine::Message moved(std::uint32_t share);
};

extern template class MemberMachine<SparseParts>;
using SparseMachine = MemberMachine<SparseParts>;

}  // namespace paceline::server
