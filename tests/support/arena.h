// Memory for the buffers of one rank, with guard bytes that show writes beside them.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "paceline/core/job/job.h"

namespace paceline::test {

// Memory in pieces, each between guard bytes, from Job::allocate or the heap.
class Arena {
 public:
  Arena(Job& job, std::size_t bytes) : allocation_(job.allocate(bytes)), ordinary_(bytes) {}

  template <typename T>
  std::span<T> take(std::size_t count, bool allocated) {
    const MutableBytes all = allocated ? allocation_.bytes() : MutableBytes(ordinary_);
    std::size_t& used = used_[allocated ? 1 : 0];
    const std::size_t begin = used + kGuard;
    used = (begin + count * sizeof(T) + kGuard + 63) / 64 * 64;
    if (used > all.size()) throw std::length_error("the test's arena is too small");
    const MutableBytes piece = all.subspan(begin - kGuard, count * sizeof(T) + 2 * kGuard);
    std::memset(piece.data(), 0xA5, piece.size());
    pieces_.push_back(piece);
    return {reinterpret_cast<T*>(piece.data() + kGuard), count};
  }

  bool guards_intact() const {
    const auto untouched = [](Bytes bytes) {
      return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0xA5}; });
    };
    return std::ranges::all_of(pieces_, [&](Bytes piece) {
      return untouched(piece.first(kGuard)) && untouched(piece.last(kGuard));
    });
  }

  void reset() {
    pieces_.clear();
    used_[0] = used_[1] = 0;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  Allocation allocation_;
  std::vector<std::byte> ordinary_;
  std::vector<MutableBytes> pieces_;
  std::size_t used_[2] = {0, 0};
};

}  // namespace paceline::test
