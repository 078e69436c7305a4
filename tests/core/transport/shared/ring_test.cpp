#include "paceline/core/transport/shared/ring.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <deque>
#include <new>
#include <thread>
#include <vector>

#include "paceline/core/base/seed.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::transport {
namespace {

constexpr std::size_t kCapacity = 4096;

// Exactly as large as the rings, so that ASan sees the first byte outside.
class Region {
 public:
  Region() : data_(new (std::align_val_t(64)) std::byte[kSize]()) {}
  ~Region() { ::operator delete[](data_, std::align_val_t(64)); }
  MutableBytes bytes() { return {data_, kSize}; }

 private:
  static constexpr std::size_t kSize = ring_region_bytes(kCapacity);
  std::byte* data_;
};

std::byte nth(std::uint64_t n) {
  return static_cast<std::byte>(n * 151 + (n >> 8));
}

TEST(Ring, AnyInterleavingKeepsTheBytesInOrderBothWays) {
  for (std::uint64_t seed = 1; seed <= (test::is_brief() ? 6 : 30); ++seed) {
    SeededNumbers numbers(test::seed(seed));
    Region region;
    std::array<RingChannel, 2> sides = {RingChannel(region.bytes(), 0),
                                        RingChannel(region.bytes(), 1)};
    // Bytes that side s has written and the other has not read.
    std::array<std::deque<std::byte>, 2> model;
    std::array<std::uint64_t, 2> next = {0, 1000};
    for (int i = 0; i < 3000; ++i) {
      const std::size_t s = numbers.below(2);
      if (numbers.below(2) == 0) {
        std::vector<std::byte> one(numbers.below(3000)), two(numbers.below(100));
        for (std::byte& b : one) b = nth(next[s]++);
        for (std::byte& b : two) b = nth(next[s]++);
        const std::size_t whole = one.size() + two.size();
        const std::size_t took = sides[s].write(std::array<Bytes, 3>{one, Bytes(), two}).value();
        EXPECT_EQ(took, std::min(whole, kCapacity - model[s].size()));
        next[s] -= whole - took;
        for (std::uint64_t n = next[s] - took; n < next[s]; ++n) model[s].push_back(nth(n));
        EXPECT_EQ(sides[s].take_moved(), took > 0);
      } else {
        std::vector<std::byte> into(numbers.below(5000));
        const std::size_t got = sides[1 - s].read(into).value();
        ASSERT_EQ(got, std::min(into.size(), model[s].size()));
        ASSERT_TRUE(std::equal(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(got),
                               model[s].begin()))
            << "seed " << seed;
        model[s].erase(model[s].begin(), model[s].begin() + static_cast<std::ptrdiff_t>(got));
        EXPECT_EQ(sides[1 - s].take_moved(), got > 0);
      }
    }
  }
}

TEST(Ring, TwoThreadsPassAMegabyteEachWayUnharmed) {
  constexpr std::uint64_t kBytes = 1 << 20;
  Region region;
  const auto run = [&](int side) {
    RingChannel channel(region.bytes(), side);
    SeededNumbers numbers(test::seed(static_cast<std::uint64_t>(side)));
    std::uint64_t written = 0, read = 0;
    std::array<std::byte, 1500> buffer;
    while (written < kBytes || read < kBytes) {
      const std::size_t most = 1 + numbers.below(buffer.size());
      std::size_t count = std::min<std::size_t>(most, kBytes - written);
      for (std::size_t i = 0; i < count; ++i) buffer[i] = nth(written + i);
      const std::size_t took =
          channel.write(std::array<Bytes, 1>{Bytes(buffer).first(count)}).value();
      written += took;
      const std::size_t got = channel.read(MutableBytes(buffer).first(most)).value();
      for (std::size_t i = 0; i < got; ++i) ASSERT_EQ(buffer[i], nth(read + i));
      read += got;
      if (took == 0 && got == 0) ::sched_yield();
    }
  };
  std::jthread other([&] { run(1); });
  run(0);
}

TEST(Ring, ScribbledCountersAreAnErrorAndNeverAnAccessOutside) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SeededNumbers numbers(test::seed(seed));
    Region region;
    RingChannel one(region.bytes(), 0), other(region.bytes(), 1);
    const auto payload = std::vector<std::byte>(numbers.below(kCapacity));
    std::vector<std::byte> into(kCapacity);
    ASSERT_TRUE(one.write(std::array<Bytes, 1>{payload}));
    if (numbers.below(2) == 0) {
      ASSERT_TRUE(other.read(MutableBytes(into).first(numbers.below(kCapacity))));
    }
    auto& pair = *reinterpret_cast<RingPair*>(region.bytes().data());
    auto& ring = pair.rings[0];
    auto& counter = numbers.below(2) == 0 ? ring.head : ring.tail;
    counter = numbers.below(3) == 0 ? counter - 1 - numbers.below(10000) : numbers();
    const auto read = other.read(into);
    const auto written = one.write(std::array<Bytes, 1>{into});
    for (const auto& result : {read, written}) {
      EXPECT_TRUE(!result || result.value() <= kCapacity);
      EXPECT_TRUE(result ||
                  result.error().what == "the shared memory between two ranks was overwritten");
    }
  }
}

TEST(Ring, AllOfTheSharedRegionMayBeScribbledOn) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SeededNumbers numbers(test::seed(seed));
    Region region;
    RingChannel one(region.bytes(), 0), other(region.bytes(), 1);
    std::vector<std::byte> buffer(2000);
    for (int i = 0; i < 20; ++i) {
      for (int k = 0; k < 50; ++k)
        region.bytes()[numbers.below(region.bytes().size())] = static_cast<std::byte>(numbers());
      (void)one.write(std::array<Bytes, 1>{Bytes(buffer).first(numbers.below(2000))});
      (void)other.read(MutableBytes(buffer).first(numbers.below(2000)));
      (void)one.peer_asleep();
    }
  }
}

TEST(Ring, ARegionRoundedUpToPagesHasTheSameRingsOnBothSides) {
  std::vector<std::byte> padded(ring_region_bytes(kCapacity) + 4096 + 64);
  std::byte* aligned = padded.data() + (64 - reinterpret_cast<std::uintptr_t>(padded.data()) % 64);
  const MutableBytes region(aligned, ring_region_bytes(kCapacity) + 4000);
  RingChannel one(region, 0), other(region, 1);
  const std::vector<std::byte> payload(kCapacity, std::byte{5});
  EXPECT_EQ(one.write(std::array<Bytes, 1>{payload}).value(), kCapacity);
  EXPECT_EQ(one.write(std::array<Bytes, 1>{payload}).value(), 0u);
  std::vector<std::byte> into(2 * kCapacity);
  EXPECT_EQ(other.read(into).value(), kCapacity);
  EXPECT_EQ(into[kCapacity - 1], std::byte{5});
}

TEST(Ring, EachSideSeesWhetherTheOtherSleeps) {
  Region region;
  RingChannel one(region.bytes(), 0), other(region.bytes(), 1);
  EXPECT_FALSE(other.peer_asleep());
  one.set_asleep(true);
  EXPECT_TRUE(other.peer_asleep());
  EXPECT_FALSE(one.peer_asleep());
  one.set_asleep(false);
  EXPECT_FALSE(other.peer_asleep());
}

}  // namespace
}  // namespace paceline::transport
