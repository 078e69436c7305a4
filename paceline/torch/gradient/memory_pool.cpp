#include "paceline/torch/gradient/memory_pool.h"

#include <algorithm>
#include <utility>

namespace paceline::parallel {
namespace {

// Units of nearly the same size share memory.
std::size_t rounded(std::size_t bytes) {
  const std::size_t granule =
      bytes < (std::size_t{1} << 20) ? std::size_t{1} << 12 : std::size_t{1} << 16;
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

std::shared_ptr<Allocation> MemoryPool::take(std::size_t bytes) {
  auto best = spare_.end();
  for (auto each = spare_.begin(); each != spare_.end(); ++each) {
    const bool fits = each->use_count() == 1 && (*each)->size() >= bytes;
    if (fits && (best == spare_.end() || (*each)->size() < (*best)->size())) best = each;
  }
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  most_ = std::max(most_, used_);
  if (best != spare_.end()) {
    auto memory = std::move(*best);
    spare_.erase(best);
    return memory;
  }
  const std::size_t size = rounded(bytes);
  while (!spare_.empty() && held_ + size > rounded(most_)) {
    held_ -= spare_.back()->size();
    spare_.pop_back();
  }
  auto memory = std::make_shared<Allocation>(group_.allocate(size));
  held_ += memory->size();
  return memory;
}

void MemoryPool::give_back(std::shared_ptr<Allocation> memory, std::size_t bytes) {
  used_ -= bytes;
  spare_.push_back(std::move(memory));
}

std::size_t MemoryPool::take_peak() {
  return std::exchange(peak_, used_);
}

std::size_t MemoryPool::held() const {
  return held_;
}

}  // namespace paceline::parallel
