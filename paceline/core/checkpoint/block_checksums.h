// CRC-32C of each MiB of a file: small enough to name the damaged part, large enough to be few.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/base/bytes.h"

namespace paceline::checkpoint {

inline constexpr std::size_t kChecksumBlock = 1 << 20;

class BlockChecksums {
 public:
  // The file's next bytes, in pieces of any length.
  void add(Bytes bytes);
  std::uint64_t length() const { return length_; }
  // One for each block; the last block may be shorter. An empty file has none.
  const std::vector<std::uint32_t>& blocks() const { return blocks_; }

 private:
  std::uint64_t length_ = 0;
  std::vector<std::uint32_t> blocks_;
};

}  // namespace paceline::checkpoint
