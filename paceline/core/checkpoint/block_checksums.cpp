#include "paceline/core/checkpoint/block_checksums.h"

#include <algorithm>

#include "paceline/core/base/crc32c.h"

namespace paceline::checkpoint {

void BlockChecksums::add(Bytes bytes) {
  while (!bytes.empty()) {
    const std::size_t within = length_ % kChecksumBlock;
    if (within == 0) blocks_.push_back(0);
    const Bytes next = bytes.first(std::min(bytes.size(), kChecksumBlock - within));
    blocks_.back() = crc32c(next, blocks_.back());
    length_ += next.size();
    bytes = bytes.subspan(next.size());
  }
}

}  // namespace paceline::checkpoint
