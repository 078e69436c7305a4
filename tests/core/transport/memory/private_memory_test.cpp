#include "paceline/core/transport/memory/private_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "paceline/core/transport/memory/available_memory.h"

namespace paceline::transport {
namespace {

TEST(PrivateMemory, IsZeroedAlignedAndAtLeastAsLongAsAskedFor) {
  for (const std::size_t bytes : {0u, 1u, 4097u, 1000000u, 2u << 20, (4u << 20) + 5}) {
    const auto memory = PrivateMemory::create(bytes).value();
    EXPECT_GE(memory.bytes().size(), std::max<std::size_t>(bytes, 1));
    const std::size_t alignment = bytes >= 2 << 20 ? 2 << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.bytes().data()) % alignment, 0u);
    EXPECT_TRUE(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{}; }));
  }
}

bool is_resident(const PrivateMemory& memory) {
  std::vector<unsigned char> pages(memory.bytes().size() / 4096);
  EXPECT_EQ(::mincore(memory.bytes().data(), memory.bytes().size(), pages.data()), 0);
  return std::ranges::all_of(pages, [](unsigned char page) { return (page & 1) != 0; });
}

TEST(PrivateMemory, IsThereBeforeAnybodyWritesAndGoneWithItsOwner) {
  std::byte* data = nullptr;
  {
    auto memory = PrivateMemory::create(8 << 20).value();
    EXPECT_TRUE(is_resident(memory));
    data = memory.bytes().data();
    PrivateMemory other = std::move(memory);
    EXPECT_TRUE(memory.bytes().empty());
    EXPECT_EQ(other.bytes().data(), data);
    memory = std::move(other);
    EXPECT_EQ(memory.bytes().data(), data);
  }
  unsigned char page = 0;
  EXPECT_EQ(::mincore(data, 4096, &page), -1) << "nothing is mapped there";
}

TEST(PrivateMemory, ThatTheSystemCannotGiveIsAnErrorWithARemedy) {
  const auto more = available_memory();
  ASSERT_LT(more, std::numeric_limits<std::size_t>::max() / 2);
  const auto refused = PrivateMemory::create(2 * more);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::io);
  EXPECT_THAT(refused.error().what, ::testing::HasSubstr("use smaller buffers"));
}

}  // namespace
}  // namespace paceline::transport
