#include "paceline/core/transport/memory/staging.h"

#include <algorithm>
#include <cstring>

namespace paceline::transport {
namespace {

constexpr std::size_t kLine = 64;

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

void Staging::prepare() {
  if (memory_ || refused_) return;
  auto memory = SharedMemory::create(size_);
  refused_ = !memory;
  if (refused_) return;
  memory_ = std::make_shared<const SharedMemory>(std::move(*memory));
  free_[0] = size_;
}

std::optional<Staging::Piece> Staging::copy(Bytes payload) {
  prepare();
  const std::size_t bytes = whole_lines(payload.size());
  const auto room = std::ranges::find_if(free_, [&](const auto& f) { return f.second >= bytes; });
  if (bytes == 0 || room == free_.end()) return std::nullopt;
  const auto [offset, size] = *room;
  free_.erase(room);
  if (size > bytes) free_[offset + bytes] = size - bytes;
  std::memcpy(memory_->bytes().data() + offset, payload.data(), payload.size());
  return Piece{offset, payload.size()};
}

void Staging::give_back(const Piece& piece) {
  std::size_t offset = piece.offset, bytes = whole_lines(piece.bytes);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace paceline::transport
