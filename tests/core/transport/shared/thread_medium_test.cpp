// Two threads' shared memory (paceline/core/transport/shared/shared_medium.h).
#include <gtest/gtest.h>

#include <thread>

#include "paceline/core/transport/shared/ring.h"
#include "paceline/core/transport/shared/shared_medium.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;

TEST(ThreadMedium, BothSidesAreOneMemory) {
  auto [one, other] = make_thread_mediums(4096);
  EXPECT_EQ(one->side(), 0);
  EXPECT_EQ(other->side(), 1);
  EXPECT_EQ(one->region().data(), other->region().data());
  EXPECT_EQ(one->region().size(), ring_region_bytes(4096));
}

TEST(ThreadMedium, OfferedSegmentsAreTheVeryMemoryAndLiveUntilThePeerWithdrawsThem) {
  auto [one, other] = make_thread_mediums(4096);
  auto lent = std::make_shared<const SharedMemory>(SharedMemory::create(8192).value());
  const std::weak_ptr<const SharedMemory> watched = lent;
  one->offer(5, lent);
  EXPECT_EQ(other->memory(5), lent);
  EXPECT_EQ(one->memory(5), nullptr) << "it is not the peer's";
  lent.reset();
  EXPECT_FALSE(watched.expired());
  other->withdraw(5);
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(other->memory(5), nullptr);
}

TEST(ThreadMedium, TheBellWakesThePeersReactorAndNoneThatIsGone) {
  auto [one, other] = make_thread_mediums(4096);
  {
    Reactor reactor;
    other->watch(reactor, {}, {});
    one->ring_bell();
    EXPECT_FALSE(one->peer_closed());
    other.reset();
    EXPECT_TRUE(one->peer_closed());
  }
  one->ring_bell();
}

TEST(ThreadMedium, OffersAndLooksOfTwoThreadsDoNotDisturbEachOther) {
  auto [one, other] = make_thread_mediums(4096);
  const auto lent = std::make_shared<const SharedMemory>(SharedMemory::create(4096).value());
  std::jthread thread([&] {
    for (std::uint64_t i = 1; i < 500; ++i) one->offer(i, lent);
  });
  for (std::uint64_t i = 1; i < 500; ++i) {
    while (other->memory(i) == nullptr) std::this_thread::yield();
    other->withdraw(i);
  }
}

}  // namespace
}  // namespace paceline::transport
