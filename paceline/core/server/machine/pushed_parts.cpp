#include "paceline/core/server/machine/pushed_parts.h"

#include <algorithm>
#include <cstring>

namespace paceline::server {
namespace {

// The server writes those pages of the output that can be taken back from it.
transport::Extent writable_part(const transport::SharedRegion& output, std::size_t bytes) {
  const std::uint64_t first = output.place.offset;
  const std::uint64_t begin = std::max(output.writable.begin, first);
  const std::uint64_t end = std::min(output.writable.end, first + bytes);
  return begin < end ? transport::Extent{begin - first, end - first} : transport::Extent{};
}

}  // namespace

PartStage::PartStage(MutableBytes memory, std::size_t length) {
  for (std::size_t at = 0; at + length <= memory.size(); at += length)
    free_.push_back(memory.subspan(at, length));
}

std::optional<MutableBytes> PartStage::take() {
  if (free_.empty()) return std::nullopt;
  const MutableBytes place = free_.back();
  free_.pop_back();
  return place;
}

machine::Message PushedParts::push(const SumPiece& piece, Bytes input, MutableBytes output) {
  Part& part = parts_.insert_or_assign(key_of(piece), Part{piece, output}).first->second;
  const auto lent = share(part, input);
  if (!lent) return encode(SumKind::push, piece, input);
  part.stored = lent->stored;
  return encode(piece, *lent);
}

std::optional<SharedPart> PushedParts::share(Part& part, Bytes input) {
  if (owner_ == nullptr || input.size() < kShortestShared) return std::nullopt;
  auto lent = share_own(part, input);
  return lent ? lent : share_staged(part, input);
}

std::optional<SharedPart> PushedParts::share_own(Part& part, Bytes input) {
  const auto from = owner_->share(server_, input);
  const auto to = owner_->share(server_, part.output);
  const std::size_t element = size_of(part.piece.dtype);
  if (!from || !to || from->place.offset % element != 0 || to->place.offset % element != 0)
    return std::nullopt;
  part.own = to;
  return SharedPart{from->place, to->place, writable_part(*to, input.size())};
}

// Nothing but parts lies on the stage, so the server may write all of a place.
std::optional<SharedPart> PushedParts::share_staged(Part& part, Bytes input) {
  const auto place = stage_->take();
  if (!place) return std::nullopt;
  const auto lent = input.size() <= place->size()
                        ? owner_->share(server_, place->first(input.size()))
                        : std::nullopt;
  if (!lent) {
    stage_->give_back(*place);
    return std::nullopt;
  }
  part.place = place;
  std::memcpy(place->data(), input.data(), input.size());
  return SharedPart{lent->place, lent->place, {0, input.size()}};
}

bool PushedParts::take(const machine::Message& message, const ReadPiece& sum, bool awaited) {
  const auto found = parts_.find(key_of(sum.piece));
  if (found == parts_.end() || found->second.piece != sum.piece) return false;
  const Part& part = found->second;
  const auto kind = part.stored ? SumKind::stored : SumKind::sum;
  const transport::Extent stored = part.stored.value_or(transport::Extent{});
  if (message.kind != static_cast<std::uint32_t>(kind) ||
      sum.rest.size() + stored.size() != part.output.size())
    return false;
  if (awaited) {
    const Bytes first = sum.rest.first(stored.begin), last = sum.rest.subspan(stored.begin);
    std::ranges::copy(first, part.output.begin());
    if (part.place)
      std::memcpy(part.output.data() + stored.begin, part.place->data() + stored.begin,
                  stored.size());
    std::ranges::copy(last, part.output.begin() + static_cast<std::ptrdiff_t>(stored.end));
  }
  if (part.place) stage_->give_back(*part.place);
  parts_.erase(found);
  return true;
}

bool PushedParts::has_parts_of(std::uint64_t call) const {
  const auto first = parts_.lower_bound({call, 0});
  return first != parts_.end() && first->first.first == call;
}

std::vector<transport::SharedRegion> PushedParts::shared_outputs(std::uint64_t call) const {
  std::vector<transport::SharedRegion> outputs;
  const auto begin = parts_.lower_bound({call, 0}), end = parts_.lower_bound({call + 1, 0});
  for (auto at = begin; at != end; ++at)
    if (at->second.own) outputs.push_back(*at->second.own);
  return outputs;
}

}  // namespace paceline::server
