#include "paceline/core/compress/kernels/spare_memory.h"

#include <algorithm>
#include <bit>

namespace paceline::compress {
namespace {

// Rounded up, so that pieces of slightly different lengths can use the same memory.
std::size_t room_for(std::size_t count) {
  const std::size_t grain = std::max<std::size_t>(std::bit_floor(count) / 8, 1);
  return (count + grain - 1) / grain * grain;
}

}  // namespace

std::unique_ptr<float[]> SpareMemory::take(std::size_t count) {
  const std::size_t room = room_for(count);
  {
    const std::lock_guard lock(mutex_);
    auto& spare = spare_[room];
    if (!spare.empty()) {
      auto memory = std::move(spare.back());
      spare.pop_back();
      return memory;
    }
    ++allocated_;
  }
  return std::make_unique_for_overwrite<float[]>(room);
}

void SpareMemory::give(std::unique_ptr<float[]> memory, std::size_t count) {
  const std::lock_guard lock(mutex_);
  spare_[room_for(count)].push_back(std::move(memory));
}

std::size_t SpareMemory::allocated() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

}  // namespace paceline::compress
