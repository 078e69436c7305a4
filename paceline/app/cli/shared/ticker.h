// Prints on stderr how far a long measurement is, at most every two seconds.
#pragma once

#include <fmt/format.h>

#include <cstddef>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/deadline.h"

namespace paceline::cli {

class Ticker {
 public:
  Ticker(bool on, std::size_t sizes) : on_(on), sizes_(sizes) {}
  void at_size(std::size_t index, std::size_t bytes) {
    index_ = index;
    bytes_ = bytes;
  }
  void at_block(int block, int blocks) {
    if (!on_ || Clock::now() - told_ < std::chrono::seconds(2)) return;
    told_ = Clock::now();
    fmt::print(stderr, "size {} of {}, {}: block {} of {}\n", index_ + 1, sizes_, size_text(bytes_),
               block, blocks);
  }

 private:
  const bool on_;
  const std::size_t sizes_;
  std::size_t index_ = 0, bytes_ = 0;
  Clock::time_point told_ = Clock::now();
};

}  // namespace paceline::cli
