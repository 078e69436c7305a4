// The properties of every link: over two threads' memory, two processes' memory, TCP and a fabric.
// Also covers paceline/core/transport/shared/memory_offers.h, and paceline/plugins/ucx/ucx_port.cpp
// and ucx_fabric.cpp, where they are built.
#include "paceline/core/transport/link/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <thread>

#include "paceline/core/base/seed.h"
#include "paceline/core/transport/memory/shared_memory.h"
#include "tests/core/transport/link_ends.h"
#include "tests/support/limit.h"
#include "tests/support/pattern.h"
#include "tests/support/seed.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;
using test::End;
using test::Kind;

using test::pattern;

class LinkConformance : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (const std::string why = test::missing(GetParam()); !why.empty())
      GTEST_SKIP() << "NOT TESTED: " << why;
    test::connect(GetParam(), one, other);
  }
  bool shares() const { return GetParam() == Kind::threads || GetParam() == Kind::processes; }

  std::shared_ptr<const SharedMemory> share(End& end, std::uint64_t id, std::size_t bytes) {
    auto memory = std::make_shared<const SharedMemory>(SharedMemory::create(bytes).value());
    end.reactor.run([&] {
      end.segments.add(id, memory);
      end.link->offer(id, memory);
    });
    EXPECT_TRUE(end.wait_driving([&] { return end.link->offered(id) != Offered::awaited; }));
    return memory;
  }
  static void send(End& end, const FrameHeader& header, Bytes payload = {}, bool listen = false) {
    end.reactor.run(
        [&] { end.link->send(header, payload, listen ? &end : nullptr, header.sequence); });
  }

  End one, other;
};

INSTANTIATE_TEST_SUITE_P(Over, LinkConformance,
                         ::testing::Values(Kind::threads, Kind::processes, Kind::tcp,
                                           Kind::loopback, Kind::ucx),
                         [](const auto& instance) { return test::name_of(instance.param); });

TEST_P(LinkConformance, FramesArriveInOrderWithTheirPayloads) {
  EXPECT_EQ(one.link->peer(), 1);
  EXPECT_EQ(other.link->peer(), 0);
  for (std::uint64_t i = 0; i < 200; ++i) {
    send(one,
         {.type = test::kLongFrame, .sequence = i, .index = 5, .descriptor = i * i, .group = 3},
         pattern(i * 97, i));
  }
  ASSERT_TRUE(other.wait_for_heard(200));
  other.reactor.run([&] {
    for (std::uint64_t i = 0; i < 200; ++i) {
      const auto& [header, payload, borrowed, placed] = other.heard[i];
      EXPECT_EQ(header.sequence, i);
      EXPECT_EQ(header.descriptor, i * i);
      EXPECT_EQ(header.source, 0u);
      EXPECT_EQ(payload, pattern(i * 97, i));
      EXPECT_FALSE(borrowed || placed);
    }
  });
}

TEST_P(LinkConformance, TheListenerIsToldOfEachPayloadExactlyOnce) {
  const auto payload = pattern(100000, 1);
  for (std::uint64_t i = 0; i < 50; ++i)
    send(one, {.type = FrameType::data, .sequence = i}, payload, true);
  ASSERT_TRUE(one.wait_for_sent(50));
  ASSERT_TRUE(other.wait_for_heard(50));
  one.reactor.run([&] {
    EXPECT_TRUE(std::ranges::is_sorted(one.cookies));
    EXPECT_EQ(one.cookies.size(), 50u);
  });
  EXPECT_TRUE(one.wait_driving([&] { return one.link->flushed(); }));
}

TEST_P(LinkConformance, AShortOperationOfOneGroupDoesNotWaitForALongOneOfAnother) {
  constexpr int kPieces = 128;  // 64 MiB
  const auto piece = pattern(512 << 10, 1);
  int before = 0;
  bool overtook = false;
  other.reactor.run([&] {
    other.on_frame = [&](const End::Heard& frame) -> Result<> {
      overtook = overtook || frame.header.group == 2;
      if (!overtook) ++before;
      return Done{};
    };
  });
  one.reactor.run([&] {
    for (int i = 0; i < kPieces; ++i)
      one.link->send({.type = test::kLongFrame, .group = 1}, piece, &one, 0);
    one.link->send({.type = test::kShortFrame, .group = 2}, pattern(4, 2));
  });
  ASSERT_TRUE(one.wait_for_sent(kPieces));
  ASSERT_TRUE(other.wait_for_heard(kPieces + 1));
  EXPECT_TRUE(overtook);
  EXPECT_LE(before, kPieces / 8);
}

TEST_P(LinkConformance, AFrameOfAKindThatTheLinkDoesNotKnowEndsIt) {
  send(one, {.type = test::kUnknownFrame});
  ASSERT_TRUE(other.wait_for_lost());
  other.reactor.run([&] {
    EXPECT_EQ(other.losses[0].what, "malformed frame: unknown type 102");
    EXPECT_TRUE(other.heard.empty());
  });
}

// The peer's driver does not read while it holds the first frame.
TEST_P(LinkConformance, ProgressCountsWhatThePeerHasTakenAndWhatItHasNot) {
  constexpr std::uint64_t kFrames = 128, kBytes = 512 << 10;  // 64 MiB
  const auto payload = pattern(kBytes, 1);
  std::latch may_read(1);
  other.reactor.run([&] {
    other.on_frame = [&](const End::Heard&) -> Result<> {
      may_read.wait();
      return Done{};
    };
  });
  one.reactor.run([&] {
    EXPECT_EQ(one.link->progress().unsent, 0U);
    for (std::uint64_t i = 0; i < kFrames; ++i)
      one.link->send({.type = test::kLongFrame, .group = 1}, payload, &one, i);
    const LinkProgress begun = one.link->progress();
    EXPECT_GE(begun.sent + begun.unsent, kFrames * (kFrameHeaderBytes + kBytes));
    EXPECT_GT(begun.unsent, 0U);
  });
  EXPECT_FALSE(
      one.reactor.drive_until([&] { return one.sent_count >= int{kFrames}; }, Deadline::in(50ms)));
  one.reactor.run([&] { EXPECT_GT(one.link->progress().unsent, 0U) << "nobody reads them"; });
  may_read.count_down();
  ASSERT_TRUE(other.wait_for_heard(kFrames));
  EXPECT_TRUE(one.wait_driving([&] { return one.link->progress().unsent == 0; }));
  one.reactor.run(
      [&] { EXPECT_GE(one.link->progress().sent, kFrames * (kFrameHeaderBytes + kBytes)); });
  other.reactor.run(
      [&] { EXPECT_GE(other.link->progress().received, kFrames * (kFrameHeaderBytes + kBytes)); });
}

TEST_P(LinkConformance, PayloadsLandWhereTheReceiverSays) {
  std::vector<std::byte> target(300000);
  other.reactor.run([&] {
    other.place_at = [&](const FrameHeader& h) {
      return h.length == 0 ? MutableBytes() : MutableBytes(target);
    };
  });
  send(one, {.type = FrameType::data}, pattern(target.size(), 3));
  ASSERT_TRUE(other.wait_for_heard(1));
  other.reactor.run([&] { EXPECT_TRUE(other.heard[0].placed); });
  EXPECT_EQ(target, pattern(target.size(), 3));
}

TEST_P(LinkConformance, SharedPayloadsAreReadInPlaceThenTakenOthersAreCopied) {
  const auto memory = share(one, 4, 100000);
  std::ranges::copy(pattern(100000, 5), memory->bytes().begin());
  other.reactor.run([&] { other.release_at_once = false; });
  send(one, {.type = FrameType::data, .sequence = 1}, memory->bytes().subspan(1000, 50000), true);
  ASSERT_TRUE(other.wait_for_heard(1));
  other.reactor.run([&] {
    EXPECT_EQ(other.heard[0].borrowed, shares());
    EXPECT_EQ(other.heard[0].header.sequence, 1u);
    const auto whole = pattern(100000, 5);
    EXPECT_TRUE(std::equal(other.heard[0].payload.begin(), other.heard[0].payload.end(),
                           whole.begin() + 1000));
  });
  if (shares()) {
    EXPECT_EQ(one.sent_count, 0) << "not before it is taken";
    other.reactor.run([&] { other.link->release(other.heard[0].header); });
  }
  EXPECT_TRUE(one.wait_for_sent(1));
  send(one, {.type = FrameType::data, .sequence = 2}, memory->bytes().first(100),
       true);  // short: cheaper to copy
  send(one, {.type = test::kLongFrame, .sequence = 3}, memory->bytes(), true);
  ASSERT_TRUE(other.wait_for_heard(3));
  EXPECT_TRUE(one.wait_for_sent(3));
  other.reactor.run([&] { EXPECT_FALSE(other.heard[1].borrowed || other.heard[2].borrowed); });
}

TEST_P(LinkConformance, PayloadsOfOrdinaryMemoryAreReadInACopyAsLongAsThereIsRoomForOne) {
  const auto payload = pattern(1 << 20, 8);
  constexpr std::uint64_t kCopies = ~std::uint64_t{0};
  send(one, {.type = FrameType::data, .sequence = 100}, payload, true);  // has the place offered
  ASSERT_TRUE(one.wait_for_sent(1));
  ASSERT_TRUE(one.wait_driving([&] { return one.link->offered(kCopies) != Offered::awaited; }));
  ASSERT_TRUE(other.wait_for_heard(1));
  other.reactor.run([&] {
    other.heard.clear();
    other.heard_count = 0;
    other.release_at_once = false;
  });
  one.sent_count = 0;
  for (std::uint64_t i = 0; i < 6; ++i)
    send(one, {.type = FrameType::data, .sequence = i}, payload, true);
  ASSERT_TRUE(other.wait_for_heard(6));
  other.reactor.run([&] {
    for (std::uint64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(other.heard[i].borrowed, shares() && i < 4);
      EXPECT_TRUE(std::ranges::equal(other.heard[i].payload, payload));
    }
    if (!shares()) return;
    for (std::uint64_t i = 0; i < 4; ++i) other.link->release(other.heard[i].header);
  });
  ASSERT_TRUE(one.wait_for_sent(6));
  send(one, {.type = FrameType::data, .sequence = 6}, payload, true);
  ASSERT_TRUE(other.wait_for_heard(7));
  ASSERT_TRUE(one.wait_for_sent(shares() ? 6 : 7));
  other.reactor.run([&] { EXPECT_EQ(other.heard[6].borrowed, shares()) << "there is room again"; });
}

TEST_P(LinkConformance, StoresLandInThePeersMemory) {
  const auto memory = share(other, 8, 65536);
  const auto payload = pattern(40000, 6);
  std::optional<Remote> where;
  other.reactor.run([&] { where = other.link->remote_of(memory->bytes().subspan(100, 40000)); });
  EXPECT_EQ(where, shares() ? std::optional(Remote{8, 100}) : std::nullopt);
  one.reactor.run([&] {
    const MutableBytes window = one.link->window(where.value_or(Remote{}), payload.size());
    EXPECT_EQ(window.size(), shares() ? payload.size() : 0);
    std::copy_n(payload.begin(), window.size(), window.begin());
    one.link->send({.type = test::kShortFrame}, {});
  });
  ASSERT_TRUE(other.wait_for_heard(1));
  other.reactor.run([&] { EXPECT_EQ(other.heard[0].header.type, test::kShortFrame); });
  if (!shares()) {
    EXPECT_TRUE(std::ranges::all_of(memory->bytes(), [](std::byte b) { return b == std::byte{}; }));
    return;
  }
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), memory->bytes().begin() + 100));
}

TEST_P(LinkConformance, UsesOfAPeersMemoryAreUnsoundOnceItHasAbandonedTheLink) {
  one.reactor.run([&] {
    EXPECT_TRUE(one.link->begin_use());
    EXPECT_TRUE(one.link->begin_use());
    EXPECT_TRUE(one.link->end_use());
    EXPECT_TRUE(one.link->end_use());
  });
  other.reactor.run([&] { other.link->abandon(); });
  one.reactor.run([&] { EXPECT_EQ(one.link->begin_use(), !shares()); });
  other.reactor.run([&] { EXPECT_TRUE(other.link->begin_use()) << "the other way it goes on"; });
  other.reactor.run([&] { EXPECT_TRUE(other.link->end_use()); });
}

// Between processes a use that has begun ends at once, and is told; between threads it is waited
// for.
TEST_P(LinkConformance, AUseThatHasBegunIsToldOrWaitedForByWhoAbandons) {
  if (!shares()) return;
  std::atomic<bool> abandoned = false;
  one.reactor.run([&] { ASSERT_TRUE(one.link->begin_use()); });
  std::jthread abandoning([&] {
    other.reactor.run([&] { other.link->abandon(); });
    abandoned = true;
  });
  bool sound = true, waited = false;
  one.reactor.run([&] {
    const Deadline deadline = Deadline::in(50ms);  // only to look whether it waits
    while (!abandoned && !deadline.passed()) std::this_thread::yield();
    waited = !abandoned;
    sound = one.link->end_use();
  });
  abandoning.join();
  EXPECT_EQ(sound, waited) << "what was read is sound if nobody went on meanwhile";
  EXPECT_TRUE(abandoned);
}

// Libraries of fabrics watch the address space, by functions in the place of the system's.
TEST_P(LinkConformance, PagesAreTakenBackWhereTheyLieThoughALibraryWatchesThem) {
  send(one, {.type = FrameType::data, .sequence = 1}, pattern(100, 1));
  ASSERT_TRUE(other.wait_for_heard(1));
  const auto memory = transport::SharedMemory::create(3 * 4096).value();
  const auto peers =
      transport::SharedMemory::attach(transport::FileDescriptor(::dup(memory.fd())), 3 * 4096)
          .value();
  std::ranges::fill(memory.bytes(), std::byte{7});
  ASSERT_TRUE(memory.take_back({4096, std::uint64_t{2} * 4096}));
  std::ranges::fill(peers.bytes(), std::byte{99});
  for (std::size_t page = 0; page < 3; ++page)
    EXPECT_EQ(memory.bytes()[page * 4096], page == 1 ? std::byte{7} : std::byte{99}) << page;
}

TEST_P(LinkConformance, ThereIsNoWindowOutsideThePeersMemory) {
  const auto memory = share(other, 8, 65536);
  send(other, {.type = test::kShortFrame});
  ASSERT_TRUE(one.wait_for_heard(1));
  one.reactor.run([&] {
    EXPECT_EQ(one.link->window({8, 65536 - 100}, 100).size(), shares() ? 100 : 0);
    for (const Remote where : {Remote{}, Remote{7, 0}, Remote{8, 65536 - 99}, Remote{8, 65537},
                               Remote{8, ~std::uint64_t{0}}}) {
      EXPECT_TRUE(one.link->window(where, 100).empty());
    }
  });
}

TEST_P(LinkConformance, AWithdrawnSegmentIsNoLongerReachable) {
  const auto memory = share(other, 8, 4096);
  send(other, {.type = test::kShortFrame});
  ASSERT_TRUE(one.wait_for_heard(1));
  one.reactor.run([&] { EXPECT_EQ(one.link->window({8, 0}, 10).empty(), !shares()); });
  other.reactor.run([&] {
    other.segments.remove(8);
    other.link->withdraw(8);
    other.link->send({.type = test::kShortFrame}, {});
  });
  ASSERT_TRUE(one.wait_for_heard(2));
  one.reactor.run([&] { EXPECT_TRUE(one.link->window({8, 0}, 10).empty()); });
  EXPECT_EQ(one.lost_count, 0);
}

// A peer without a descriptor for the memory gets its content, and says so.
TEST_P(LinkConformance, MemoryThatThePeerCannotMapTravelsAsCopies) {
  const auto memory = std::make_shared<const SharedMemory>(SharedMemory::create(65536).value());
  std::ranges::copy(pattern(65536, 5), memory->bytes().begin());
  {
    const test::Limit limit(RLIMIT_NOFILE, GetParam() == Kind::threads ? 1024 : test::next_file());
    one.reactor.run([&] {
      one.segments.add(4, memory);
      one.link->offer(4, memory);
    });
    ASSERT_TRUE(one.wait_driving([&] { return one.link->offered(4) != Offered::awaited; }));
  }
  send(one, {.type = FrameType::data, .sequence = 1}, memory->bytes(), true);
  ASSERT_TRUE(other.wait_for_heard(1));
  other.reactor.run([&] {
    EXPECT_EQ(other.heard[0].borrowed, GetParam() == Kind::threads);
    EXPECT_EQ(other.heard[0].payload, pattern(65536, 5));
    EXPECT_EQ(other.link->withholds(4), GetParam() == Kind::processes);
  });
  one.reactor.run([&] {
    EXPECT_EQ(one.link->remote_of(memory->bytes()).has_value(), GetParam() == Kind::threads);
  });
  EXPECT_EQ(other.lost_count, 0);
}

// A peer that frees what we read would crash us. Where memory is not shared nothing is lent.
TEST_P(LinkConformance, MemoryThatIsBeingReadCannotBeWithdrawn) {
  const auto memory = share(one, 4, 65536);
  other.reactor.run([&] { other.release_at_once = false; });
  send(one, {.type = FrameType::data, .sequence = 1}, memory->bytes(), true);
  ASSERT_TRUE(other.wait_for_heard(1));
  other.reactor.run([&] { EXPECT_EQ(other.heard[0].borrowed, shares()); });
  one.reactor.run([&] {
    one.link->withdraw(4);
    one.link->send({.type = test::kShortFrame}, {});
  });
  if (!shares()) {
    ASSERT_TRUE(other.wait_for_heard(2));
    EXPECT_EQ(other.lost_count, 0);
    return;
  }
  ASSERT_TRUE(other.wait_for_lost());
  EXPECT_EQ(other.losses[0].what, "the peer withdrew memory that it had lent");
}

TEST_P(LinkConformance, ClosingIsToldOnceAfterAllFramesAndTheGoodbye) {
  for (std::uint64_t i = 0; i < 20; ++i)
    send(one, {.type = test::kLongFrame, .sequence = i}, pattern(1000, i));
  send(one, {.type = FrameType::goodbye, .sequence = 20});
  ASSERT_TRUE(one.wait_driving([&] { return one.link->flushed(); }));
  one.close();
  ASSERT_TRUE(other.wait_for_lost());
  EXPECT_EQ(other.heard_count, 21);
  other.reactor.run([&] {
    EXPECT_EQ(other.heard.back().header.type, FrameType::goodbye);
    other.link->send({.type = test::kLongFrame}, pattern(10, 1), &other,
                     1);  // goes nowhere, and says nothing
    EXPECT_TRUE(other.link->flushed());
  });
  other.reactor.drive_until([] { return false; }, Deadline::in(std::chrono::milliseconds(5)));
  EXPECT_EQ(other.lost_count, 1);
  EXPECT_EQ(other.losses[0].fault, Fault::peer_lost);
}

// The peer says why it ends and is gone, while we are in the middle of telling it something:
// writing fails first.
TEST_P(LinkConformance, LastWordsAreHeardThoughWritingFails) {
  const auto much = pattern(kLongestPayload, 1);
  for (int round = 0; round < 5; ++round) {
    End here, there;
    test::connect(GetParam(), here, there);
    there.reactor.stop();  // reads nothing, until it goes
    here.reactor.run([&] {
      for (std::uint64_t i = 0; i < 3; ++i)
        here.link->send({.type = test::kLongFrame, .sequence = i}, much);
    });
    here.reactor.stop();
    there.reactor.post([&] {
      there.on_frame = [](const End::Heard&) { return Done{}; };
      there.link->send({.type = FrameType::failure}, pattern(100, 2));
      there.link->send({.type = FrameType::goodbye}, {});
    });
    there.close();
    ASSERT_TRUE(here.wait_for_lost());
    ASSERT_EQ(here.heard_count, 2) << here.losses[0].what;
    EXPECT_EQ(here.heard[0].payload, pattern(100, 2));
  }
}

TEST_P(LinkConformance, AFrameThatTheOwnerRefusesEndsTheLink) {
  other.reactor.run([&] {
    other.on_frame = [](const End::Heard&) -> Result<> {
      return Failure{Fault::io, "nonsense", {}};
    };
  });
  send(one, {.type = test::kShortFrame});
  send(one, {.type = test::kShortFrame});
  ASSERT_TRUE(other.wait_for_lost());
  EXPECT_EQ(other.losses[0].what, "nonsense");
  EXPECT_EQ(other.heard_count, 1);
}

TEST_P(LinkConformance, AnAbandonedLinkTouchesNoMemoryOfItsCallerAndStillSpeaks) {
  auto memory = share(one, 4, 1 << 20);
  auto heap = std::make_unique<std::vector<std::byte>>(pattern(1 << 20, 1));
  auto target = std::make_unique<std::vector<std::byte>>(1 << 20);
  other.reactor.run([&] {
    other.place_at = [&](const FrameHeader& h) {
      return h.length == 1 << 20 && target ? MutableBytes(*target) : MutableBytes();
    };
    other.release_at_once = false;
  });
  one.reactor.run([&] {
    one.link->send({.type = FrameType::data, .sequence = 1}, memory->bytes(), &one, 1);
    one.link->send({.type = FrameType::data, .sequence = 2}, *heap, &one, 2);
    one.link->send({.type = FrameType::data, .sequence = 3}, *heap, &one, 3);
  });
  int told = 0;
  other.reactor.run([&] {
    other.link->abandon();
    target.reset();
  });
  one.reactor.run([&] {
    one.link->abandon();
    heap.reset();
    told = one.sent_count;
    one.link->send({.type = FrameType::failure}, pattern(50, 1));
    one.segments.remove(4);
    one.link->withdraw(4);
    memory.reset();
    one.link->send({.type = FrameType::goodbye}, {});
  });
  ASSERT_TRUE(other.wait_driving([&] {
    return !other.heard.empty() && other.heard.back().header.type == FrameType::goodbye;
  }));
  EXPECT_EQ(one.sent_count, told) << "no listener is called any more";
  EXPECT_EQ(other.lost_count + one.lost_count, 0);
}

// A look costs a system call, and the next data come while other ranks have the core.
TEST(TcpLink, OfRanksThatShareCoresAsksItsSocketOnceUntilTheyRest) {
  for (const bool share_cores : {false, true}) {
    End one({.share_cores = share_cores}), other;
    connect(Kind::tcp, one, other);
    one.reactor.run([&] {
      const auto look = [&] {
        one.reactor.look();
        return one.heard_count.load();
      };
      look();
      other.reactor.run([&] { other.link->send({.type = FrameType::data}, {}, nullptr, 0); });
      const Deadline deadline = Deadline::in(20s);
      if (share_cores) {
        for (int i = 0; i < 10; ++i) EXPECT_EQ(look(), 0);
        while (look() == 0 && !deadline.passed()) one.reactor.relax();
      } else {
        while (look() == 0 && !deadline.passed()) continue;
      }
      EXPECT_EQ(one.heard_count, 1);
    });
  }
}

TEST_P(LinkConformance, AThousandMixedMessagesBothWays) {
  const auto run = [&](End& end, std::uint64_t id) {
    const auto memory = share(end, id, 1 << 18);
    std::ranges::copy(pattern(1 << 18, id), memory->bytes().begin());
    SeededNumbers numbers(test::seed(id));
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::size_t size = numbers.below(4) == 0 ? numbers.below(100000) : numbers.below(300);
      const Bytes payload = memory->bytes().subspan(numbers.below((1 << 18) - size), size);
      send(end, {.type = numbers.below(2) == 0 ? FrameType::data : test::kLongFrame, .sequence = i},
           payload, true);
    }
    EXPECT_TRUE(end.wait_for_heard(1000));
    EXPECT_TRUE(end.wait_for_sent(1000));
  };
  {
    std::jthread second([&] { run(other, 22); });
    run(one, 11);
  }
  const auto check = [](End& end, std::uint64_t id) {
    const auto source = pattern(1 << 18, id);
    SeededNumbers numbers(test::seed(id));
    end.reactor.run([&] {
      ASSERT_EQ(end.heard.size(), 1000u);
      for (std::uint64_t i = 0; i < 1000; ++i) {
        const std::size_t size = numbers.below(4) == 0 ? numbers.below(100000) : numbers.below(300);
        const std::size_t offset = numbers.below((1 << 18) - size);
        numbers.below(2);
        EXPECT_EQ(end.heard[i].header.sequence, i);
        ASSERT_EQ(end.heard[i].payload.size(), size);
        EXPECT_TRUE(std::equal(end.heard[i].payload.begin(), end.heard[i].payload.end(),
                               source.begin() + static_cast<std::ptrdiff_t>(offset)));
      }
    });
  };
  check(one, 22);
  check(other, 11);
}

// Both sides sleep after each message: a wake-up that gets lost stops the game.
TEST_P(LinkConformance, NoWakeUpIsLostBetweenSleepers) {
  constexpr int kMessages = 20000;
  End ping({.spin = 0us}), pong({.spin = 0us});
  test::connect(GetParam(), ping, pong);
  const auto answer = [](End& end) {
    end.reactor.run([&] {
      end.on_frame = [&end](const End::Heard& frame) -> Result<> {
        if (frame.header.sequence + 1 < kMessages) {
          end.link->send({.type = test::kLongFrame, .sequence = frame.header.sequence + 1}, {});
        }
        return Done{};
      };
    });
  };
  answer(ping);
  answer(pong);
  send(ping, {.type = test::kLongFrame, .sequence = 0});
  std::jthread sleeper([&] { EXPECT_TRUE(pong.wait_for_heard(kMessages / 2)); });
  EXPECT_TRUE(ping.wait_for_heard(kMessages / 2));
}

}  // namespace
}  // namespace paceline::transport
