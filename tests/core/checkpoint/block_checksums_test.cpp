#include "paceline/core/checkpoint/block_checksums.h"

#include <gtest/gtest.h>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::checkpoint {
namespace {

TEST(BlockChecksums, AreThoseOfEachMibHoweverTheBytesArrive) {
  SeededNumbers numbers(test::seed(2));
  std::vector<std::byte> bytes(3 * kChecksumBlock + 12345);
  for (std::byte& one : bytes) one = static_cast<std::byte>(numbers.below(256));
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, kChecksumBlock, kChecksumBlock + 1, bytes.size()}) {
    BlockChecksums checksums;
    for (std::size_t at = 0; at < length;) {
      const std::size_t next = std::min<std::size_t>(length - at, numbers.below(900'000));
      checksums.add(Bytes(bytes).subspan(at, next));
      at += next;
    }
    std::vector<std::uint32_t> expected;
    for (std::size_t at = 0; at < length; at += kChecksumBlock)
      expected.push_back(crc32c(Bytes(bytes).subspan(at, std::min(kChecksumBlock, length - at))));
    EXPECT_EQ(checksums.blocks(), expected) << length;
    EXPECT_EQ(checksums.length(), length);
  }
}

}  // namespace
}  // namespace paceline::checkpoint
