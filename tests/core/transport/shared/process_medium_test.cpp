// Two processes' shared memory, both ends in this process
// (paceline/core/transport/shared/shared_medium.h).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "paceline/core/base/seed.h"
#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/shared/ring.h"
#include "tests/core/transport/link_ends.h"
#include "tests/support/seed.h"
#include "tests/support/shared_memory.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> record(std::uint32_t kind, std::uint64_t segment, std::uint64_t bytes) {
  return WireWriter().integer(kind).integer(segment).integer(bytes).bytes();
}

TEST(ProcessMedium, BothSidesSeeTheSameRings) {
  auto [one, other] = test::process_mediums();
  EXPECT_EQ(one->side(), 0);
  EXPECT_EQ(other->side(), 1);
  ASSERT_EQ(one->region().size(), other->region().size());
  EXPECT_NE(one->region().data(), other->region().data());
  one->region()[100] = std::byte{7};
  EXPECT_EQ(other->region()[100], std::byte{7});
}

TEST(ProcessMedium, OfferedSegmentsAreFoundAndLiveAsLongAsTheyAreHeld) {
  auto [one, other] = test::process_mediums();
  const auto lent = test::shared_memory_of(8192);
  lent->bytes()[4096] = std::byte{3};
  one->offer(5, lent);
  const auto held = other->memory(5);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(held->bytes().size(), 8192u);
  EXPECT_EQ(other->memory(6), nullptr);
  other->withdraw(5);
  EXPECT_EQ(other->memory(5), nullptr);
  EXPECT_EQ(held->bytes()[4096], std::byte{3});
}

TEST(ProcessMedium, MalformedRecordsAreIgnored) {
  auto [one, other] = test::record_pair();
  const auto region = test::shared_memory_of(ring_region_bytes(4096));
  ASSERT_TRUE(send_record(one.get(), record(2, 0, region->bytes().size()), region->fd()));
  auto medium = make_process_medium(std::move(other), 1, 4096, Deadline::in(1s)).value();
  const auto sealed = test::shared_memory_of(4096);
  const FileDescriptor unsealed(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_TRUE(send_record(one.get(), record(3, 1, 4096)));                 // without a descriptor
  ASSERT_TRUE(send_record(one.get(), record(3, 1, 8192), sealed->fd()));   // shorter than it says
  ASSERT_TRUE(send_record(one.get(), record(3, 1, 0), unsealed.get()));    // not sealed
  ASSERT_TRUE(send_record(one.get(), record(77, 1, 4096), sealed->fd()));  // unknown
  ASSERT_TRUE(send_record(one.get(), bytes_of(std::uint8_t{3}), sealed->fd()));  // cut
  EXPECT_EQ(medium->memory(1), nullptr);
  ASSERT_TRUE(send_record(one.get(), record(3, 1, 4096), sealed->fd()));
  ASSERT_NE(medium->memory(1), nullptr);
  EXPECT_EQ(medium->memory(1)->bytes().size(), 4096u);
  EXPECT_FALSE(medium->peer_closed());
  one.reset();
  (void)medium->memory(9);
  EXPECT_TRUE(medium->peer_closed());
}

TEST(ProcessMedium, WhatIsNoRegionIsRefused) {
  const auto region = test::shared_memory_of(ring_region_bytes(4096)),
             small = test::shared_memory_of(4096);
  const auto refused = [&](std::uint32_t kind, std::uint64_t bytes, int fd) {
    auto [one, other] = test::record_pair();
    EXPECT_TRUE(send_record(one.get(), record(kind, 0, bytes), fd));
    return !make_process_medium(std::move(other), 1, 4096, Deadline::in(1s));
  };
  EXPECT_FALSE(refused(2, region->bytes().size(), region->fd()));
  EXPECT_TRUE(refused(3, region->bytes().size(), region->fd()));
  EXPECT_TRUE(refused(2, region->bytes().size(), -1));
  EXPECT_TRUE(refused(2, region->bytes().size() + 4096, region->fd()));
  EXPECT_TRUE(refused(2, 4096, small->fd()));
  EXPECT_TRUE(refused(2, ~std::uint64_t{0}, region->fd()));
}

TEST(ProcessMedium, APeerThatSendsNoRegionIsNotWaitedForLongerThanTheDeadline) {
  auto [one, other] = test::record_pair();
  EXPECT_EQ(make_process_medium(std::move(other), 1, 4096, Deadline::in(10ms)).error().fault,
            Fault::timed_out);
  auto [gone, left] = test::record_pair();
  gone.reset();
  EXPECT_EQ(make_process_medium(std::move(left), 1, 4096, Deadline::in(10s)).error().fault,
            Fault::peer_lost);
}

// S10: a process that writes anything anywhere in the rings ends the link, and never this process.
TEST(ProcessMedium, ALinkSurvivesAScribblerWithAnErrorAtMost) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SeededNumbers numbers(test::seed(seed));
    auto [socket, theirs] = test::record_pair();
    const auto region = test::shared_memory_of(ring_region_bytes(4096));
    ASSERT_TRUE(send_record(theirs.get(), record(2, 0, region->bytes().size()), region->fd()));
    test::End end;
    end.on_frame = [](const test::End::Heard&) { return Done{}; };
    end.reactor.run([&] {
      auto medium = make_process_medium(std::move(socket), 1, 4096, Deadline::in(5s)).value();
      end.link = make_shared_link(std::move(medium), test::kSecond, end.segments, end, end.reactor);
    });
    for (int i = 0; i < 50 && end.lost_count == 0; ++i) {
      end.reactor.run([&] {
        for (int k = 0; k < 100; ++k)
          region->bytes()[numbers.below(region->bytes().size())] =
              static_cast<std::byte>(numbers());
        end.link->send({.type = test::kLongFrame}, std::vector<std::byte>(numbers.below(3000)));
      });
    }
    theirs.reset();
    EXPECT_TRUE(end.wait_for_lost()) << "seed " << seed;
    EXPECT_EQ(end.lost_count, 1);
  }
}

}  // namespace
}  // namespace paceline::transport
