#include "paceline/core/transport/memory/segment_table.h"

namespace paceline::transport {

void SegmentTable::add(std::uint64_t id, std::shared_ptr<const SharedMemory> memory) {
  by_address_[memory->bytes().data()] = id;
  segments_.emplace(id, std::move(memory));
}

void SegmentTable::remove(std::uint64_t id) {
  const auto found = segments_.find(id);
  if (found == segments_.end()) return;
  by_address_.erase(found->second->bytes().data());
  segments_.erase(found);
}

std::optional<Remote> SegmentTable::find(Bytes bytes) const {
  auto after = by_address_.upper_bound(bytes.data());
  if (after == by_address_.begin()) return std::nullopt;
  const auto& [start, id] = *std::prev(after);
  const auto offset = static_cast<std::size_t>(bytes.data() - start);
  const SharedMemory& memory = *segments_.at(id);
  const std::size_t size = memory.bytes().size();
  if (!memory.is_shared() || offset > size || bytes.size() > size - offset) return std::nullopt;
  return Remote{id, offset};
}

std::optional<SharedRegion> SegmentTable::share(Bytes bytes) const {
  const auto place = find(bytes);
  if (!place) return std::nullopt;
  const SharedMemory& memory = *segments_.at(place->segment);
  return SharedRegion{*place, memory.whole_pages({place->offset, place->offset + bytes.size()})};
}

}  // namespace paceline::transport
