#include "paceline/core/collective/carrier/link_carrier.h"

#include <gtest/gtest.h>

#include <thread>

#include "paceline/core/base/seed.h"
#include "paceline/core/collective/call/collective_frames.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/pattern.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

TEST(LinkCarrier, HaveTheBitsOfMessagesUpToTheirLongestInputAndBeyond) {
  run_ranks(2, kTcp, [](Job& job) {
    constexpr std::size_t kLongest = LinkCarrier::kLongestInput / sizeof(float);
    for (const std::size_t count : {std::size_t{1}, std::size_t{20000}, kLongest, kLongest + 1}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
        auto posted = thirds(job.rank(), count), messages = posted;
        const auto input = posted;
        std::vector<float> elsewhere(count);
        job.world().all_reduce(buffer_of(posted), {.op = op}).wait();
        job.world().all_reduce(const_buffer_of(input), buffer_of(elsewhere), {.op = op}).wait();
        job.world().all_reduce(buffer_of(messages), {.op = op, .algorithm = "direct"}).wait();
        ASSERT_EQ(posted, messages) << count << " of " << name_of(op);
        ASSERT_EQ(elsewhere, messages) << count << " of " << name_of(op);
      }
    }
  });
}

TEST(LinkCarrier, SendTheInputOnceToEachPeer) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    run_ranks(ranks, kTcp, [&](Job& job) {
      const Traffic before = job.world().traffic();
      std::vector<float> values(100, 1);
      for (int i = 0; i < 10; ++i) {
        job.world().all_reduce(buffer_of(values)).wait();
        job.world().barrier().wait();
      }
      const Traffic after = job.world().traffic();
      const auto peers = static_cast<std::uint64_t>(ranks - 1);
      EXPECT_EQ(after.operations - before.operations, 20u);
      EXPECT_EQ(after.messages_sent - before.messages_sent, 10 * peers);
      EXPECT_EQ(after.bytes_sent - before.bytes_sent, 10 * peers * 400);
      EXPECT_EQ(after.bytes_reduced - before.bytes_reduced, 10 * peers * 400);
    });
  }
}

TEST(LinkCarrier, OfRanksThatRunAheadAndOfSeveralGroupsNeverMix) {
  run_ranks(2, kTcp, [](Job& job) {
    std::vector<std::unique_ptr<Communicator>> groups;
    for (int i = 0; i < 3; ++i) groups.push_back(job.world().split(0));
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        SeededNumbers numbers(test::seed(static_cast<std::uint64_t>(t)));  // the same on both ranks
        for (int i = 0; i < (kSanitized ? 100 : 1000); ++i) {
          const std::size_t count = numbers.below(8) == 0 ? 50000 : 1 + numbers.below(100);
          std::vector<int> values(count, t * 1000 + i + job.rank());
          groups[static_cast<std::size_t>(t)]->all_reduce(buffer_of(values)).wait();
          ASSERT_EQ(values, std::vector<int>(count, 2 * (t * 1000 + i) + 1));
        }
      });
    }
  });
}

TEST(LinkCarrier, OfAGroupThatEndsAtOnceAreStillReadByOthers) {
  run_ranks(3, kTcp, [](Job& job) {
    for (int i = 0; i < (kSanitized ? 20 : 200); ++i) {
      const auto group = job.world().split(0);
      std::vector<int> values(10, job.rank());
      group->all_reduce(buffer_of(values)).wait();
      ASSERT_EQ(values, std::vector<int>(10, 3));
    }
  });
}

TEST(LinkCarrier, AmongTwoAreAsLongAsAMessageAndAmongMoreShorterTheMoreThereAre) {
  for (const bool on_a_host : {false, true}) {
    EXPECT_EQ(LinkCarrier::longest_input(2, on_a_host), LinkCarrier::kLongestInput);
    const std::size_t most =
        on_a_host ? LinkCarrier::kLongestSentOnAHost : LinkCarrier::kLongestSentOverLinks;
    for (int ranks = 3; ranks <= 64; ++ranks) {
      const auto peers = static_cast<std::size_t>(ranks - 1);
      EXPECT_LE(peers * LinkCarrier::longest_input(ranks, on_a_host), most);
      EXPECT_GT(peers * (LinkCarrier::longest_input(ranks, on_a_host) + 1), most);
    }
  }
}

TEST(LinkCarrier, AmongSeveralCarryWhatIsShortEnoughAndMessagesCarryTheRest) {
  run_ranks(4, kTcp, [](Job& job) {
    const std::size_t longest = LinkCarrier::longest_input(4, true);
    for (const std::size_t bytes : {longest, longest + sizeof(float)}) {
      const Traffic before = job.world().traffic();
      auto posted = thirds(job.rank(), bytes / sizeof(float)), messages = posted;
      job.world().all_reduce(buffer_of(posted)).wait();
      const Traffic after = job.world().traffic();
      EXPECT_EQ(after.bytes_sent - before.bytes_sent == 3 * bytes, bytes == longest) << bytes;
      job.world().all_reduce(buffer_of(messages), {.algorithm = "direct"}).wait();
      ASSERT_EQ(posted, messages) << bytes;
    }
  });
}

// Rank 0 of 2, whose peer's frames the test makes up.
class LinkCarrierOfOne : public ::testing::Test {
 protected:
  LinkCarrierOfOne()
      : generation(std::make_shared<membership::Generation>(
            membership::GenerationIdentity{.rank = 0, .size = 2})),
        members(generation, {0, 1}),
        carrier(members, 0, traffic) {
    request.call = {.operation = Operation::all_reduce, .dtype = Dtype::i32, .count = 2};
    request.fingerprint = 5;
    request.input = {reinterpret_cast<const std::byte*>(input.data()), 2, Dtype::i32};
    request.output = {reinterpret_cast<std::byte*>(output.data()), 2, Dtype::i32};
  }

  Result<> receive(std::uint64_t sequence, std::size_t bytes, std::uint64_t print = 5) {
    const auto payload = test::pattern(bytes, 1);
    return carrier.received(1, {.type = frame::kPosted, .sequence = sequence, .descriptor = print},
                            payload, Delivery::payload);
  }
  CallProgress advance(std::uint64_t sequence) {
    EXPECT_TRUE(carrier.begin(sequence, request));
    return carrier.advance().value();
  }

  std::vector<std::int32_t> input = {1, 2}, output = {7, 7};
  Request request;
  Traffic traffic;
  std::shared_ptr<membership::Generation> generation;
  Members members;
  LinkCarrier carrier;
};

TEST_F(LinkCarrierOfOne, WhoeverPostsSomethingElseSendsAllToTheirCalls) {
  EXPECT_EQ(advance(1), CallProgress::waiting);
  ASSERT_TRUE(receive(1, 8, 6));
  EXPECT_EQ(advance(1), CallProgress::by_messages) << "another call";
  ASSERT_TRUE(receive(2, 4));
  EXPECT_EQ(advance(2), CallProgress::by_messages) << "another length";
  EXPECT_EQ(output, std::vector<std::int32_t>(2, 7));
  ASSERT_TRUE(receive(3, 8));
  EXPECT_EQ(advance(3), CallProgress::done);
}

TEST_F(LinkCarrierOfOne, ASecondPostAndOneThatIsTooLongAreRefused) {
  ASSERT_TRUE(receive(1, 8));
  const auto again = receive(1, 8);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().ranks, std::vector<int>{1});
  EXPECT_NE(again.error().what.find("posted operation 1 twice"), std::string::npos);
  EXPECT_FALSE(receive(2, LinkCarrier::kLongestInput + 1));
  EXPECT_TRUE(receive(2, LinkCarrier::kLongestInput));
}

TEST_F(LinkCarrierOfOne, NothingIsPlacedForAnOperationThatThisRankIsNotIn) {
  for (const std::uint64_t sequence : {0, 1, 2}) {
    EXPECT_TRUE(
        carrier.place(1, {.type = frame::kPosted, .sequence = sequence, .length = 8}).empty());
  }
}

}  // namespace
}  // namespace paceline::collective::testing
