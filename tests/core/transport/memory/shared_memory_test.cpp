#include "paceline/core/transport/memory/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/support/limit.h"

namespace paceline::transport {
namespace {

using test::Limit;

std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

FileDescriptor memfd(std::size_t bytes, unsigned seals) {
  FileDescriptor fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(SharedMemory, IsZeroedPageAlignedAndAtLeastAsLongAsAskedFor) {
  for (const std::size_t bytes : {0u, 1u, 4096u, 4097u, 1000000u}) {
    const auto memory = SharedMemory::create(bytes).value();
    EXPECT_GE(memory.bytes().size(), std::max<std::size_t>(bytes, 1));
    EXPECT_EQ(memory.bytes().size() % 4096, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.bytes().data()) % 4096, 0u);
    EXPECT_TRUE(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{}; }));
  }
}

TEST(SharedMemory, IsPrivateSealedAndCommitted) {
  const auto memory = SharedMemory::create(1 << 20).value();
  struct stat status = {};
  ASSERT_EQ(::fstat(memory.fd(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_GE(status.st_blocks * 512, 1 << 20) << "every page is there";
  EXPECT_NE(::ftruncate(memory.fd(), 4096), 0);
  EXPECT_NE(::ftruncate(memory.fd(), 2 << 20), 0);
  EXPECT_NE(::fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "the seals are sealed";
}

TEST(SharedMemory, TwoMappingsAreTheSameMemory) {
  const auto memory = SharedMemory::create(8192).value();
  const auto same = SharedMemory::attach(FileDescriptor(::dup(memory.fd())), 8192).value();
  memory.bytes()[8191] = std::byte{3};
  EXPECT_EQ(same.bytes()[8191], std::byte{3});
  EXPECT_NE(same.bytes().data(), memory.bytes().data());
}

TEST(SharedMemory, WhatWasTakenBackKeepsWhatItHeldAndIsWrittenByNobodyElse) {
  const auto memory = SharedMemory::create(4 * 4096).value();
  const auto peers = SharedMemory::attach(FileDescriptor(::dup(memory.fd())), 4 * 4096).value();
  for (std::size_t i = 0; i < memory.bytes().size(); ++i)
    memory.bytes()[i] = static_cast<std::byte>(i / 4096 + i % 7);
  EXPECT_TRUE(memory.is_shared());
  ASSERT_TRUE(memory.take_back({4096, 3 * 4096}));
  EXPECT_FALSE(memory.is_shared());
  for (std::size_t i = 0; i < memory.bytes().size(); ++i)
    ASSERT_EQ(memory.bytes()[i], static_cast<std::byte>(i / 4096 + i % 7)) << i;
  std::ranges::fill(peers.bytes(), std::byte{99});
  for (std::size_t i = 0; i < memory.bytes().size(); ++i) {
    const bool is_own = i >= 4096 && i < std::size_t{3} * 4096;
    ASSERT_EQ(memory.bytes()[i] != std::byte{99}, is_own) << i;
  }
  std::ranges::fill(memory.bytes(), std::byte{1});
  EXPECT_EQ(peers.bytes()[4096], std::byte{99});
  EXPECT_EQ(peers.bytes()[0], std::byte{1}) << "the other pages are as they were";
}

TEST(SharedMemory, CanTakeBackThePagesThatLieWhollyInAPart) {
  const auto memory = SharedMemory::create(3 * 4096 + 100).value();
  const std::uint64_t end = 3 * 4096 + 100;
  EXPECT_EQ(memory.whole_pages({0, 4096}), (Extent{0, 4096}));
  EXPECT_EQ(memory.whole_pages({1, 3 * 4096}), (Extent{4096, 3 * 4096}));
  EXPECT_EQ(memory.whole_pages({4096, 2 * 4096 + 4095}), (Extent{4096, 2 * 4096}));
  EXPECT_EQ(memory.whole_pages({100, end}), (Extent{4096, end}))
      << "the last page has no neighbour";
  EXPECT_EQ(memory.whole_pages({0, end - 1}), (Extent{0, 3 * 4096}));
  for (const Extent part : {Extent{10, 4000}, Extent{1, 8191}, Extent{3 * 4096 + 1, end}, Extent{}})
    EXPECT_TRUE(memory.whole_pages(part).is_empty()) << part.begin;
}

TEST(SharedMemory, MovedItIsMappedOnce) {
  auto one = SharedMemory::create(4096).value();
  std::byte* const data = one.bytes().data();
  SharedMemory two(std::move(one));
  EXPECT_TRUE(one.bytes().empty());
  auto three = SharedMemory::create(4096).value();
  three = std::move(two);
  EXPECT_EQ(three.bytes().data(), data);
  three.bytes()[0] = std::byte{1};
}

TEST(SharedMemory, UnsealedOrWrongSizedOffersAreRefused) {
  constexpr unsigned kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_TRUE(SharedMemory::attach(memfd(4096, kAll), 4096));
  for (const unsigned seals : {0u, unsigned{F_SEAL_SHRINK}, unsigned{F_SEAL_GROW},
                               unsigned{F_SEAL_SHRINK | F_SEAL_GROW}}) {
    EXPECT_FALSE(SharedMemory::attach(memfd(4096, seals), 4096)) << seals;
  }
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{4095}, std::size_t{8192}, ~std::size_t{0}}) {
    EXPECT_FALSE(SharedMemory::attach(memfd(4096, kAll), bytes)) << bytes;
  }
  EXPECT_FALSE(SharedMemory::attach(memfd(0, kAll), 0));
  EXPECT_FALSE(SharedMemory::attach(FileDescriptor(::open("/dev/zero", O_RDWR | O_CLOEXEC)), 4096));
  EXPECT_FALSE(SharedMemory::attach(FileDescriptor(), 4096));
  EXPECT_EQ(SharedMemory::attach(memfd(4096, 0), 4096).error().what,
            "a peer offered memory that is not sealed or not as long as it said");
}

std::string refusal(std::size_t bytes) {
  const auto memory = SharedMemory::create(bytes);
  if (memory) return "there was enough";
  EXPECT_EQ(memory.error().fault, Fault::io);
  return memory.error().what;
}

TEST(SharedMemory, AFileSizeLimitIsNamedWithTheRemedy) {
  const Limit limit(RLIMIT_FSIZE, 1 << 20);
  EXPECT_TRUE(SharedMemory::create(1 << 20));
  EXPECT_EQ(refusal((1 << 20) + 1),
            "cannot have 1052672 bytes of shared memory: RLIMIT_FSIZE: File too large; raise the "
            "limit of file sizes "
            "(`ulimit -f unlimited`), or run with PACELINE_TRANSPORT=tcp");
}

TEST(SharedMemory, AnAddressSpaceLimitIsNamedWithTheRemedy) {
  std::string told;
  {
    const Limit limit(RLIMIT_AS, address_space() + (16 << 20));
    told = refusal(64 << 20);
  }
  EXPECT_EQ(told,
            "cannot have 67108864 bytes of shared memory: mmap: Cannot allocate memory; raise the "
            "limit of address space "
            "(`ulimit -v unlimited`) or free memory, or run with PACELINE_TRANSPORT=tcp");
}

TEST(SharedMemory, ALimitOfOpenFilesIsNamedWithTheRemedy) {
  const FileDescriptor next(::dup(0));
  std::string told;
  {
    const Limit limit(RLIMIT_NOFILE, static_cast<rlim_t>(next.get()) + 1);
    told = refusal(4096);
  }
  EXPECT_EQ(told,
            "cannot have 4096 bytes of shared memory: memfd_create: Too many open files; raise the "
            "limit of open files "
            "(`ulimit -n`), or run with PACELINE_TRANSPORT=tcp");
}

TEST(SharedMemory, MoreThanTheMachineHasIsRefusedBeforeItIsTaken) {
  for (const std::size_t bytes : {std::size_t{1} << 50, ~std::size_t{0}, ~std::size_t{0} - 4095}) {
    const std::string told = refusal(bytes);
    EXPECT_NE(told.find("cannot have " + std::to_string(bytes) +
                        " bytes of shared memory: available memory"),
              std::string::npos)
        << told;
    EXPECT_NE(told.find("free memory"), std::string::npos);
  }
}

TEST(SharedMemory, LeavesNoDescriptorBehind) {
  const int before = FileDescriptor(::dup(0)).get();
  for (int i = 0; i < 50; ++i) {
    const auto memory = SharedMemory::create(4096).value();
    (void)SharedMemory::attach(FileDescriptor(::dup(memory.fd())), 4095);
  }
  EXPECT_EQ(FileDescriptor(::dup(0)).get(), before);
}

}  // namespace
}  // namespace paceline::transport
