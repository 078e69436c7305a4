#include "paceline/core/server/machine/table_machine.h"

#include <algorithm>

namespace paceline::server {

template class MemberMachine<TableParts>;

std::uint32_t TableParts::count(const TableShape& shape) {
  return static_cast<std::uint32_t>(shape.ranges.size());
}

RangeMachine TableParts::make(const TableShape& shape, std::uint32_t range, int own,
                              const Chain& chain, bool is_fresh) {
  return {shape, range, range + 1, own, chain, is_fresh};
}

bool TableParts::has_worker(const TableShape& shape, int member, const WorkerOptions& options) {
  return options.is_newcomer || std::ranges::binary_search(shape.members.workers, member);
}

Result<Packet> TableParts::parse(const machine::Message& message, const TableShape& shape) {
  return parse_packet(message, {count(shape), shape.element_bytes()});
}

machine::Message TableParts::moved(std::uint32_t range) {
  return encode(server::Packet{.kind = PacketKind::moved, .range = range});
}

}  // namespace paceline::server
