#include "paceline/core/server/machine/held_part.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "paceline/core/collective/carrier/combine.h"

namespace paceline::server {
namespace {

using Memory = std::shared_ptr<const transport::SharedMemory>;

// Whether the elements of the piece lie there as elements of their type can.
bool contains(const Memory& memory, transport::Remote place, const SumPiece& piece) {
  if (memory == nullptr || place.offset % size_of(piece.dtype) != 0) return false;
  const std::size_t all = memory->bytes().size();
  return place.offset <= all && piece.bytes() <= all - place.offset;
}

// Takes from these bytes, which begin at `begin`, those that lie before `until` of the part.
Bytes before(std::uint64_t until, std::uint64_t begin, Bytes bytes) {
  return bytes.first(until > begin ? std::min<std::size_t>(until - begin, bytes.size()) : 0);
}

}  // namespace

Result<HeldPart> HeldPart::shared(RegionUser& user, int worker, const SumPiece& piece,
                                  const SharedPart& lent) {
  HeldPart part;
  part.lent_ = lent;
  part.input_memory_ = user.segment(worker, lent.input.segment);
  part.output_memory_ = user.segment(worker, lent.output.segment);
  if (!contains(part.input_memory_, lent.input, piece) ||
      !contains(part.output_memory_, lent.output, piece))
    return Failure{Fault::io,
                   "a part of a push_pull in memory that its worker does not share: a bug, please "
                   "report it",
                   {worker}};
  return part;
}

void HeldPart::take(std::uint64_t begin, Bytes sum, std::vector<std::byte>& told) const {
  const Bytes first = before(lent_.stored.begin, begin, sum);
  const Bytes all_stored = before(lent_.stored.end, begin, sum);
  const Bytes stored = all_stored.subspan(first.size());
  const Bytes last = sum.subspan(all_stored.size());
  told.insert(told.end(), first.begin(), first.end());
  told.insert(told.end(), last.begin(), last.end());
  if (stored.empty()) return;
  std::byte* const output = output_memory_->bytes().data() + lent_.output.offset;
  std::memcpy(output + begin + first.size(), stored.data(), stored.size());
}

// Inputs and outputs may be the same memory, so each block is read by all before it is written.
std::vector<std::vector<std::byte>> sum_up(const SumPiece& piece, std::span<const HeldPart> parts,
                                           collective::TreeSum& tree) {
  alignas(64) std::array<std::byte, collective::kReductionBlock> block;
  const double factor =
      piece.op == ReduceOp::average ? 1.0 / static_cast<double>(parts.size()) : 1.0;
  const std::size_t longest = block.size() / size_of(piece.dtype);
  std::vector<std::vector<std::byte>> told(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].is_lent()) told[i].reserve(piece.bytes());
  std::vector<ConstBuffer> inputs;
  for (std::size_t at = 0; at < piece.count; at += longest) {
    const std::size_t begin = at * size_of(piece.dtype);
    const Buffer sum{block.data(), std::min(longest, piece.count - at), piece.dtype};
    inputs.clear();
    for (const HeldPart& part : parts)
      inputs.push_back({part.data() + begin, sum.count, piece.dtype});
    if (parts.size() > 1) tree(piece.op, inputs, sum, factor);
    else std::memcpy(sum.data, inputs.front().data, sum.size_bytes());
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].take(begin, sum.bytes(), told[i]);
  }
  return told;
}

}  // namespace paceline::server
