#include "paceline/core/transport/segment_table.h"

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
  const std::size_t size = segments_.at(id)->bytes().size();
  if (offset > size || bytes.size() > size - offset) return std::nullopt;
  return Remote{id, offset};
}

}  // namespace paceline::transport
