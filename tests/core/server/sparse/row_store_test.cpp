#include "paceline/core/server/sparse/row_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

#include "paceline/core/server/sparse/sparse_spec.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

TEST(RowStore, HoldsWhatAMapHoldsThroughAllItsGrowth) {
  SeededNumbers numbers(test::seed(3100000));
  RowStore store(12);
  std::map<std::uint64_t, std::uint64_t> map;
  for (int number = 0; number < 60'000; ++number) {
    const std::uint64_t id = numbers.below(40'000) * 0x1000003, hash = hash_of_id(id);
    std::byte* row = store.find(id, hash);
    ASSERT_EQ(row != nullptr, map.contains(id));
    if (row == nullptr) row = store.add(id, hash);
    map[id] = numbers.next();
    std::memcpy(row, &map[id], sizeof(std::uint64_t));
  }
  ASSERT_EQ(store.rows(), map.size());
  for (std::size_t i = 0; i < store.rows(); ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, store.at(i), sizeof value);
    ASSERT_EQ(value, map.at(store.id_of(i)));
    ASSERT_EQ(store.at(i), store.find(store.id_of(i), hash_of_id(store.id_of(i))));
  }
}

// Hashes of which only the upper bits differ lie in one place of the index.
TEST(RowStore, TellsIdsOfOneHashApart) {
  RowStore store(8);
  for (std::uint64_t id = 0; id < 1000; ++id) {
    ASSERT_EQ(store.find(id, 7), nullptr);
    std::memcpy(store.add(id, 7), &id, sizeof id);
  }
  for (std::uint64_t id = 0; id < 1000; ++id) {
    std::uint64_t value = 0;
    ASSERT_NE(store.find(id, 7), nullptr);
    std::memcpy(&value, store.find(id, 7), sizeof value);
    EXPECT_EQ(value, id);
  }
}

std::size_t resident_bytes() {
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

bool takes_the_memory_that_it_tells() {
  constexpr std::uint64_t kRows = 700'000;
  constexpr std::size_t kRowBytes = 68, kUnlike = std::size_t{8} << 20;
  const std::size_t before = resident_bytes();
  RowStore store(kRowBytes);
  for (std::uint64_t id = 0; id < kRows; ++id)
    std::memset(store.add(id, hash_of_id(id)), 1, kRowBytes);
  const std::size_t taken = resident_bytes() - before;
  std::cerr << "taken " << taken << ", told " << store.memory() << '\n';
  const bool is_alike = taken > store.memory() / 2 && taken < store.memory() + kUnlike;
  return is_alike || test::kSanitized;  // a sanitizer has memory of its own for each byte
}

// Another process, whose heap has the pages that `paceline run` gives to servers.
TEST(RowStore, TakesTheMemoryThatItTellsAlsoWhereTheHeapHasHugePages) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432", 1);
  EXPECT_EXIT(std::exit(takes_the_memory_that_it_tells() ? 0 : 1), ::testing::ExitedWithCode(0),
              "taken");
  unsetenv("GLIBC_TUNABLES");
}

// Adds and removes many rows, of which hashes of many begin alike.
TEST(RowStore, HoldsWhatAMapHoldsWhenRowsAreRemovedAndItsMemoryIsGivenBack) {
  SeededNumbers numbers(test::seed(4100000));
  for (const std::uint64_t most_hash : {std::uint64_t{50}, UINT64_MAX}) {
    const auto hash_of = [&](std::uint64_t id) { return hash_of_id(id) % most_hash; };
    const std::uint64_t ids = most_hash == 50 ? 300 : 20'000;
    RowStore store(8);
    std::map<std::uint64_t, std::uint64_t> map;
    for (std::uint64_t number = 0; number < 10 * ids; ++number) {
      // More come in the first half, more go in the second one.
      const std::uint64_t id = numbers.below(ids);
      const bool adds = numbers.below(4) < (number < 5 * ids ? 3U : 1U);
      std::byte* row = store.find(id, hash_of(id));
      ASSERT_EQ(row != nullptr, map.contains(id));
      if (adds) {
        if (row == nullptr) row = store.add(id, hash_of(id));
        map[id] = numbers.next();
        std::memcpy(row, &map[id], sizeof(std::uint64_t));
      } else if (row != nullptr) {
        store.remove(id, hash_of(id), hash_of(store.id_of(store.rows() - 1)));
        map.erase(id);
      }
      ASSERT_EQ(store.rows(), map.size());
    }
    for (std::size_t i = 0; i < store.rows(); ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, store.at(i), sizeof value);
      ASSERT_EQ(value, map.at(store.id_of(i)));
      ASSERT_EQ(store.at(i), store.find(store.id_of(i), hash_of(store.id_of(i))));
    }
  }
  RowStore store(1000);
  const auto hash_of_last = [&] { return hash_of_id(store.id_of(store.rows() - 1)); };
  for (std::uint64_t id = 0; id < 30'000; ++id) store.add(id, hash_of_id(id));
  const std::size_t whole = store.memory();
  for (std::uint64_t id = 0; id < 30'000; ++id) store.remove(id, hash_of_id(id), hash_of_last());
  EXPECT_LT(store.memory(), whole / 6) << "one chunk and the index stay";
}

TEST(RowStore, RowsNeverMoveAndTheIndexIsSmallBesideThem) {
  RowStore store(68);
  const std::byte* const first = store.add(1, hash_of_id(1));
  constexpr std::uint64_t kRows = 200'000;
  for (std::uint64_t id = 2; id <= kRows; ++id) store.add(id, hash_of_id(id));
  EXPECT_EQ(store.find(1, hash_of_id(1)), first);
  EXPECT_LT(store.memory(), kRows * (8 + 68 + 24) + (std::size_t{2} << 20));
}

}  // namespace
}  // namespace paceline::server
