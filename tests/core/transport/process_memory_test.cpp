#include "paceline/core/transport/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

namespace paceline::transport {
namespace {

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

TEST(ProcessMemory, OfADoorWithItsTokenCanBeRead) {
  const OwnMemoryDoor own;
  EXPECT_TRUE(can_read(own.door()));
}

TEST(ProcessMemory, OfAProcessThatIsNotTheOneThatWasMeantIsNotRead) {
  const OwnMemoryDoor own;
  MemoryDoor other_token = own.door(), other_place = own.door(), nobody = own.door();
  ++other_token.token;
  other_place.address = 8;
  nobody.process = 0x7FFF'FFFF;
  for (const MemoryDoor& door : {other_token, other_place, nobody, MemoryDoor{}})
    EXPECT_FALSE(can_read(door));
}

TEST(ProcessMemory, IsReadWholeOrNotAtAll) {
  constexpr std::size_t kPage = 4096;
  const OwnMemoryDoor own;
  void* const two =
      ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(two, MAP_FAILED);
  std::memset(two, 7, 2 * kPage);
  std::vector<std::byte> read(2 * kPage);
  EXPECT_TRUE(read_memory(own.door(), address_of(two), read));
  EXPECT_EQ(read, std::vector<std::byte>(2 * kPage, std::byte{7}));
  EXPECT_TRUE(read_memory(own.door(), address_of(two), {})) << "nothing is always there";
  ASSERT_EQ(::munmap(static_cast<std::byte*>(two) + kPage, kPage), 0);
  EXPECT_FALSE(read_memory(own.door(), address_of(two), read));
  ::munmap(two, kPage);
}

}  // namespace
}  // namespace paceline::transport
