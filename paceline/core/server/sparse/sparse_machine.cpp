#include "paceline/core/server/sparse/sparse_machine.h"

#include <algorithm>

namespace paceline::server {

template class MemberMachine<SparseParts>;

std::uint32_t SparseParts::count(const SparseShape& shape) {
  return static_cast<std::uint32_t>(shape.servers());
}

ShareMachine SparseParts::make(const SparseShape& shape, std::uint32_t share, int own,
                               const Chain& chain, bool is_fresh) {
  return {shape, share, own, chain, is_fresh};
}

bool SparseParts::has_worker(const SparseShape& shape, int member, const SparseWorkerOptions&) {
  return std::ranges::binary_search(shape.members.workers, member);
}

Result<SparsePacket> SparseParts::parse(const machine::Message& message, const SparseShape& shape) {
  return parse_sparse_packet(message, shape);
}

machine::Message SparseParts::moved(std::uint32_t share) {
  return encode(SparsePacket{.kind = SparseKind::moved, .share = share});
}

}  // namespace paceline::server
