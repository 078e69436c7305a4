// Single numbers, and strings whose lengths the other ranks do not know.
#include "paceline/core/collective/group/values.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

// Text of `length` bytes of every value, another for each rank.
std::string text_of(int rank, std::size_t length) {
  std::string text(length, '\0');
  for (std::size_t i = 0; i < length; ++i)
    text[i] = static_cast<char>(i * 37 + static_cast<std::size_t>(rank) * 101);
  return text;
}

// Lists of the values of ranks 0..3.
const std::vector<std::vector<std::size_t>> kLengths = {
    {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 5, 0, 3}, {7, 0, 0, 0}, {300'000, 2, 0, 70'001}};

// On 1..4 ranks, with each list of lengths, on both transports.
void for_every_world_and_lengths(
    const std::function<void(Communicator&, const std::vector<std::string>& texts)>& body) {
  for (const auto& options : {kShared, kTcp}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_ranks(ranks, options, [&](Job& job) {
        for (const auto& lengths : kLengths) {
          SCOPED_TRACE(
              fmt::format("{} ranks, {}, first length {}", ranks, label(options), lengths[0]));
          std::vector<std::string> texts;
          for (int rank = 0; rank < ranks; ++rank)
            texts.push_back(text_of(rank, lengths[static_cast<std::size_t>(rank)]));
          body(job.world(), texts);
        }
      });
    }
  }
}

const std::string& own_of(const Communicator& world, const std::vector<std::string>& texts) {
  return texts[static_cast<std::size_t>(world.rank())];
}

TEST(Values, OneNumberIsReducedAndReturned) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_ranks(ranks, [&](Job& job) {
      Communicator& world = job.world();
      EXPECT_EQ(world.all_reduce(world.rank() + 1), ranks * (ranks + 1) / 2);
      EXPECT_EQ(world.all_reduce(world.rank() + 0.5, ReduceOp::max), ranks - 0.5);
      EXPECT_EQ(world.all_reduce(world.rank() - 2.0, ReduceOp::min), -2);
      EXPECT_EQ(world.all_reduce(2, ReduceOp::product), std::exp2(ranks));
      EXPECT_EQ(world.all_reduce(world.rank() * 4.0, ReduceOp::average), 4.0 * (ranks - 1) / 2);
      const double third = 1.0 / 3 * (world.rank() + 1);
      double by_buffer[] = {third};
      world.all_reduce(buffer_of(by_buffer)).wait();
      EXPECT_EQ(world.all_reduce(third), by_buffer[0]);
    });
  }
}

TEST(Values, AReductionThatNumbersDoNotHaveIsMisuse) {
  run_ranks(2, [](Job& job) {
    const auto failure = failure_of([&] { job.world().all_reduce(1.0, ReduceOp::band); });
    EXPECT_EQ(failure.fault, Fault::misuse);
    EXPECT_THAT(failure.what, HasSubstr("f64"));
    EXPECT_EQ(job.world().all_reduce(1), 2);
  });
}

TEST(Values, EveryRankGathersWhatEachOneBrings) {
  for_every_world_and_lengths([](Communicator& world, const std::vector<std::string>& texts) {
    EXPECT_TRUE(all_gather_bytes(world, own_of(world, texts)) == texts);
  });
}

TEST(Values, TheRootAloneGathers) {
  for_every_world_and_lengths([](Communicator& world, const std::vector<std::string>& texts) {
    for (int root = 0; root < world.size(); ++root) {
      const auto gathered = gather_bytes(world, own_of(world, texts), root);
      EXPECT_TRUE(gathered == (world.rank() == root ? texts : std::vector<std::string>()));
    }
  });
}

TEST(Values, EveryRankLearnsWhatTheRootBrings) {
  for_every_world_and_lengths([](Communicator& world, const std::vector<std::string>& texts) {
    for (int root = 0; root < world.size(); ++root) {
      const std::string told = broadcast_bytes(world, own_of(world, texts), root);
      EXPECT_TRUE(told == texts[static_cast<std::size_t>(root)]);
    }
  });
}

TEST(Values, MoreThanTheBoundIsRefusedOnAllRanksWhichGoOn) {
  run_ranks(3, [](Job& job) {
    Communicator& world = job.world();
    const BytesOptions narrow{.at_most = 20};
    const std::string own = text_of(world.rank(), world.rank() == 1 ? 11 : 5);
    const auto expect_refused = [](const std::function<void()>& call, const std::string& length) {
      const auto failure = failure_of(call);
      EXPECT_EQ(failure.fault, Fault::misuse);
      EXPECT_THAT(failure.what, HasSubstr("at_most"));
      EXPECT_THAT(failure.what, HasSubstr(length));
    };
    expect_refused([&] { all_gather_bytes(world, own, narrow); }, "the 5 bytes of rank 2");
    expect_refused([&] { gather_bytes(world, own, 2, narrow); }, "the 5 bytes of rank 2");
    expect_refused([&] { broadcast_bytes(world, own, 1, {.at_most = 10}); },
                   "the 11 bytes of rank 1");
    EXPECT_EQ(broadcast_bytes(world, own, 1, {.at_most = 11}), text_of(1, 11));
    EXPECT_EQ(all_gather_bytes(world, own, {.at_most = 21}).size(), 3U);
  });
}

// No honest rank brings this length: the sum must not wrap around to an allowed one.
TEST(Values, LengthsThatOverflowTogetherAreRefused) {
  run_ranks(2, [](Job& job) {
    Communicator& world = job.world();
    if (world.rank() == 0) {
      const auto failure = failure_of([&] { all_gather_bytes(world, "abc"); });
      EXPECT_EQ(failure.fault, Fault::misuse);
      EXPECT_THAT(failure.what, HasSubstr("rank 1"));
    } else {
      const std::int64_t length[] = {-2};
      std::vector<std::int64_t> lengths(2);
      world.all_gather(const_buffer_of(length), buffer_of(lengths)).wait();
    }
    world.barrier().wait();
  });
}

TEST(Values, ARankThatCallsSomethingElseIsNamed) {
  const auto expect_told = [](const std::function<void(Communicator&)>& usual,
                              const std::function<void(Communicator&)>& odd,
                              const std::string& text) {
    run_ranks(3, [&](Job& job) {
      const auto failure = failure_of([&] { (job.rank() == 1 ? odd : usual)(job.world()); });
      EXPECT_EQ(failure.fault, Fault::mismatch);
      EXPECT_THAT(failure.what, HasSubstr(text));
      EXPECT_THAT(failure.what, HasSubstr("rank 1 called"));
    });
  };
  const auto gather = [](Communicator& world) { all_gather_bytes(world, "some"); };
  expect_told(
      gather, [](Communicator& world) { broadcast_bytes(world, "some"); },
      "broadcast i64[1] from root 0");
  expect_told(
      gather, [](Communicator& world) { world.barrier().wait(); }, "barrier");
  expect_told([](Communicator& world) { broadcast_bytes(world, "some", 0); },
              [](Communicator& world) { broadcast_bytes(world, "some", 2); }, "from root 2");
  expect_told([](Communicator& world) { world.all_reduce(1.0); },
              [](Communicator& world) { world.all_reduce(1.0, ReduceOp::max); },
              "all_reduce f64[1] max");
}

}  // namespace
}  // namespace paceline::collective::testing
