// Also covers paceline/core/collective/carrier/group_board.cpp.
#include "paceline/core/collective/carrier/board_carrier.h"

#include <gtest/gtest.h>

#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

TEST(BoardCarrier, HaveTheBitsOfMessages) {
  for (int ranks = 1; ranks <= (kSanitized ? 3 : 8); ++ranks) {
    for (const auto& options : {kShared, kTcp}) {
      run_ranks(ranks, options, [&](Job& job) {
        Communicator& world = job.world();
        for (const std::size_t count : {0, 1, 2, 17, 1000, 1024, 1025, 4097, 300'001}) {
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
            auto short_call = thirds(job.rank(), count), messages = short_call;
            world.all_reduce(buffer_of(short_call), {.op = op}).wait();
            world.all_reduce(buffer_of(messages), {.op = op, .algorithm = "direct"}).wait();
            ASSERT_EQ(short_call, messages) << count << " of " << name_of(op);
          }
        }
      });
    }
  }
}

TEST(BoardCarrier, SendNoMessagesOnceTheRanksHaveMet) {
  run_ranks(2, kShared, [](Job& job) {
    job.world().barrier().wait();
    const Traffic before = job.world().traffic();
    std::vector<float> values(100, 1);
    for (int i = 0; i < 50; ++i) {
      job.world().all_reduce(buffer_of(values)).wait();
      job.world().barrier().wait();
    }
    const Traffic after = job.world().traffic();
    EXPECT_EQ(after.operations - before.operations, 100u);
    EXPECT_EQ(after.messages_sent, before.messages_sent);
  });
}

TEST(BoardCarrier, OfAGroupThatEndsAreStillReadByOthers) {
  run_ranks(3, kShared, [](Job& job) {
    for (int i = 0; i < (kSanitized ? 30 : 300); ++i) {
      const auto group = job.world().split(0);
      group->barrier().wait();
      std::vector<int> values(10, job.rank());
      group->all_reduce(buffer_of(values)).wait();
      ASSERT_EQ(values, std::vector<int>(10, 3));
    }
  });
}

TEST(BoardCarrier, WakeRanksThatSleep) {
  run_ranks(2, kShared, [](Job& job) {
    job.world().barrier().wait();
    std::vector<int> values(1);
    for (int i = 0; i < 50; ++i) {
      // Longer than a blocked caller spins: the other one sleeps by then, mostly.
      const auto until = Clock::now() + (i % 2 == job.rank() ? 3ms : 0ms);
      while (Clock::now() < until) std::this_thread::yield();
      values = {job.rank()};
      job.world().all_reduce(buffer_of(values), {.within = 5s}).wait();
      ASSERT_EQ(values[0], 1);
    }
  });
}

TEST(BoardCarrier, OfSeveralThreadsAndGroupsDoNotMeet) {
  run_ranks(2, kShared, [](Job& job) {
    std::vector<std::unique_ptr<Communicator>> groups;
    for (int i = 0; i < 3; ++i) groups.push_back(job.world().split(0));
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < (kSanitized ? 200 : 3000); ++i) {
          std::vector<int> values(20, t * 1000 + i + job.rank());
          groups[static_cast<std::size_t>(t)]->all_reduce(buffer_of(values)).wait();
          ASSERT_EQ(values[19], 2 * (t * 1000 + i) + 1);
        }
      });
    }
  });
}

TEST(BoardCarrier, AreBarriersAndPlainAllReduces) {
  const Call sum{.operation = Operation::all_reduce, .dtype = Dtype::f32, .count = 1 << 30};
  EXPECT_TRUE(BoardCarrier::suits(sum, 64));
  EXPECT_FALSE(BoardCarrier::suits(sum, 1));
  Call weighted = sum, noted = sum;
  weighted.weighted = true;
  noted.note.resize(1);
  for (const Call& call : {weighted, noted}) EXPECT_FALSE(BoardCarrier::suits(call, 2));
  EXPECT_TRUE(BoardCarrier::suits({.operation = Operation::barrier}, 64));
  EXPECT_FALSE(BoardCarrier::suits({.operation = Operation::broadcast, .count = 1}, 2));
}

TEST(BoardCarrier, CountTheBytesThatLongOnesMoveBetweenRanks) {
  constexpr std::size_t kCount = 100'003;
  for (int ranks = 2; ranks <= 4; ++ranks) {
    std::atomic<std::uint64_t> sent = 0, reduced = 0;
    run_ranks(ranks, kShared, [&](Job& job) {
      job.world().barrier().wait();
      auto values = thirds(job.rank(), kCount);
      job.world().all_reduce(buffer_of(values)).wait();
      sent += job.world().traffic().bytes_sent;
      reduced += job.world().traffic().bytes_reduced;
    });
    const std::size_t bytes = kCount * sizeof(float), others = static_cast<std::size_t>(ranks) - 1;
    EXPECT_EQ(sent, 2 * others * bytes) << ranks << " ranks";
    EXPECT_EQ(reduced, others * bytes) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace paceline::collective::testing
