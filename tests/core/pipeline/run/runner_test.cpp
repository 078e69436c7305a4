#include "paceline/core/pipeline/run/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "paceline/core/pipeline/check/check_order.h"
#include "paceline/core/pipeline/order/turns.h"
#include "tests/core/pipeline/orders.h"
#include "tests/core/pipeline/run/affine_stages.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::pipeline {
namespace {

using testing::AffineStages;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The gradients of each stage, from the rank that has it, after some steps.
void expect_gradients_of_one_process(const Order& order, const LocalWorldOptions& options,
                                     std::size_t width, std::uint64_t seed, int most_us,
                                     const std::string& text) {
  constexpr int kSteps = 2;
  const auto expected =
      testing::gradients_of_one_process(order.stages, order.micro_batches, width, kSteps);
  const auto peaks = peak_live(order);
  const int ranks = static_cast<int>(order.ranks.size());
  test::run_ranks(ranks, options, [&](Job& job) {
    AffineStages stages(order, job.rank(), width, seed, most_us);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const StepReport report = run(job.world(), order, stages, step);
      const auto& own = order.ranks[static_cast<std::size_t>(job.rank())];
      EXPECT_EQ(report.peak_live, peaks[static_cast<std::size_t>(job.rank())]) << text;
      ASSERT_EQ(report.operations.size(), own.size());
      for (std::size_t i = 0; i < own.size(); ++i)
        EXPECT_EQ(report.operations[i].operation, own[i]) << text;
    }
    EXPECT_EQ(stages.faults, 0) << text;
    for (int stage = job.rank(); stage < order.stages; stage += ranks)
      EXPECT_EQ(stages.gradient(stage), expected[static_cast<std::size_t>(stage)]) << text;
  });
}

TEST(Runner, EveryScheduleAddsTheGradientsOfOneProcess) {
  for (const auto& one : testing::order_cases(4, 6))
    if (one.micro_batches % 3 != 2 || one.ranks == 3)
      expect_gradients_of_one_process(one.order, {}, 5, 0, 0, one.text());
}

// Messages of 128 KiB wait for their receives.
TEST(Runner, LongMessagesOverSharedMemoryAndTcpArriveWhole) {
  for (const bool shares : {true, false}) {
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zero_bubble"}) {
      const Order order = testing::order_of(schedule, 3, 6);
      expect_gradients_of_one_process(order, {.share_memory = shares}, 16384, 0, 0, schedule);
    }
  }
}

TEST(Runner, NoRandomDelayStopsItOrChangesABit) {
  const auto cases = testing::order_cases(4, 6);
  SeededNumbers numbers(test::seed(4130));
  const Deadline end = Deadline::in(std::chrono::seconds(test::is_nightly() ? 600 : 3));
  for (int round = 0; round < 1000 && !end.passed(); ++round) {
    const auto& one = cases[numbers.below(cases.size())];
    const std::size_t width = numbers.below(4) == 0 ? 9000 : 10;
    expect_gradients_of_one_process(one.order, {.share_memory = numbers.below(4) != 0}, width,
                                    numbers.next(), 300, one.text());
  }
}

TEST(Runner, AStageOfReplicasTakesItsMicroBatchesInTurn) {
  const Order order = order_of_turns({2, 1, 1}, 9);
  const auto expected = testing::gradients_of_one_process(3, 9, 7);
  test::run_ranks(4, [&](Job& job) {
    AffineStages stages(order, job.rank(), 7, 1, 200);
    run(job.world(), order, stages);
    const int stage = std::max(0, job.rank() - 1);
    const auto replicas = job.world().split(stage, job.rank());
    EXPECT_NEAR(replicas->all_reduce(stages.gradient(stage)),
                expected[static_cast<std::size_t>(stage)], 1e-9 * expected[0]);
  });
}

// Turn by turn, as training without a flush goes.
TEST(Runner, AListThatGrowsIsTheOrderThatIsGivenAtOnce) {
  constexpr int kRanks = 3, kBatches = 8;
  const Order order = order_of_turns(kRanks, kBatches);
  const auto expected = testing::gradients_of_one_process(kRanks, kBatches, 5);
  test::run_ranks(kRanks, [&](Job& job) {
    AffineStages stages(order, job.rank(), 5, 2, 200);
    const Turns turns = turns_of(order.placement(), job.rank());
    Runner runner(job.world(), order.placement(), stages, {.ahead = 4});
    std::vector<Operation> computed;
    const auto take = [&](const std::vector<Operation>& operations) {
      for (const OperationSpan& span : runner.run(operations).operations)
        computed.push_back(span.operation);
    };
    for (int own = 0; own < kBatches; ++own) {
      runner.expect({Kind::backward, turns.stage, own});
      take(turns.turn(own));
    }
    take(turns.drain(kBatches));
    runner.drain();
    EXPECT_EQ(computed, order.ranks[static_cast<std::size_t>(job.rank())]);
    EXPECT_EQ(stages.faults, 0);
    EXPECT_EQ(stages.gradient(job.rank()), expected[static_cast<std::size_t>(job.rank())]);
  });
}

class WatchedStages final : public StageWork {
 public:
  using Before = std::function<void(const Operation&)>;
  WatchedStages(AffineStages& stages, Before before)
      : stages_(stages), before_(std::move(before)) {}
  std::vector<Buffer> room(const Transfer& transfer) override { return stages_.room(transfer); }
  std::vector<ConstBuffer> message(const Transfer& transfer) override {
    return stages_.message(transfer);
  }
  void sent(const Transfer& transfer) override { stages_.sent(transfer); }
  void compute(const Operation& operation) override {
    before_(operation);
    stages_.compute(operation);
  }

 private:
  AffineStages& stages_;
  const Before before_;
};

// Waits until rank 1 has left, for a message that it never sends.
void wait_for_the_end_of_rank_1(Job& job) {
  std::vector<double> never(1);
  EXPECT_THROW(job.world().recv(buffer_of(never), 1, {.tag = 1}).wait(), Error);
}

// Returns what rank 0 of two says when rank 1 fails in an operation; in another one, if it is
// given, rank 0 waits for that.
std::string told_by_rank_0(const Order& order, Operation fails, std::optional<Operation> slow,
                           const RunnerOptions& options = {}) {
  std::string told;
  EXPECT_THROW(test::run_ranks(2,
                               [&](Job& job) {
                                 AffineStages stages(order, job.rank(), 5, 0, 0);
                                 WatchedStages watched(stages, [&](const Operation& operation) {
                                   if (operation == fails) throw_misuse("this stage fails");
                                   if (operation == slow) wait_for_the_end_of_rank_1(job);
                                 });
                                 try {
                                   run(job.world(), order, watched, 0, options);
                                 } catch (const Error& error) {
                                   if (job.rank() == 0) told = error.what();
                                   throw;
                                 }
                               }),
               Error);
  return told;
}

TEST(Runner, ARankThatWaitsForALostOneNamesTheMessage) {
  const std::string told =
      told_by_rank_0(testing::order_of("1f1b", 2, 4), {Kind::backward, 1, 3}, {});
  EXPECT_THAT(told, AllOf(HasSubstr("pipeline: rank 0 waited for the gradient of micro-batch 3 for "
                                    "stage 0 from rank 1: "),
                          HasSubstr("rank 1")));
}

TEST(Runner, TheFirstMessageThatIsMissingIsNamedThoughALaterReceiveIsRefused) {
  EXPECT_THAT(told_by_rank_0(testing::order_of("gpipe", 2, 4), {Kind::backward, 1, 2},
                             Operation{Kind::backward, 0, 0}, {.ahead = 2}),
              HasSubstr("pipeline: rank 0 waited for the gradient of micro-batch 2 for stage 0 "
                        "from rank 1: "));
}

// Rank 1 fails when it has posted receives for messages that rank 0 does not send.
TEST(Runner, AStageThatThrowsEndsTheMessagesThatUseItsMemory) {
  const Order order = testing::order_of("gpipe", 2, 4);
  EXPECT_THROW(test::run_ranks(2,
                               [&](Job& job) {
                                 AffineStages stages(order, job.rank(), 5, 0, 0);
                                 WatchedStages watched(stages, [&](const Operation& operation) {
                                   if (operation == Operation{Kind::forward, 1, 0})
                                     throw_misuse("this stage fails");
                                   if (operation == Operation{Kind::forward, 0, 1})
                                     wait_for_the_end_of_rank_1(job);
                                 });
                                 try {
                                   run(job.world(), order, watched);
                                 } catch (const Error&) {
                                   if (job.rank() == 1) {
                                     EXPECT_THROW((void)job.world().barrier(), Error);
                                   }
                                   throw;
                                 }
                               }),
               Error);
}

TEST(Runner, ARunnerThatEndsBeforeItsMessagesEndsTheCommunication) {
  const Order order = testing::order_of("gpipe", 2, 4);
  test::run_ranks(2, [&](Job& job) {
    std::string told;
    try {
      if (job.rank() == 1) {
        AffineStages stages(order, 1, 5, 0, 0);
        Runner(job.world(), order.placement(), stages, {}).expect({Kind::forward, 1, 0});
      }
      for (;;) job.world().barrier().wait();
    } catch (const Error& error) {
      told = error.what();
    }
    EXPECT_THAT(told, HasSubstr("rank 1 aborted group 'world': its pipeline ended with messages "
                                "in flight; before that call Runner::drain()"));
  });
}

TEST(Runner, AStageThatIsLateIsToldAsAStallAndGoesOn) {
  const Order order = testing::order_of("1f1b", 2, 3);
  const auto expected = testing::gradients_of_one_process(2, 3, 5);
  ::testing::internal::CaptureStderr();
  test::run_ranks(2, [&](Job& job) {
    AffineStages stages(order, job.rank(), 5, 3, job.rank() == 1 ? 60'000 : 0);
    run(job.world(), order, stages, 0, {.stall = std::chrono::milliseconds(10)});
    EXPECT_EQ(stages.gradient(job.rank()), expected[static_cast<std::size_t>(job.rank())]);
  });
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("stall: for 0.01 s rank 0 waits for the gradient of micro-batch 0 for stage 0 "
                "from rank 1"));
}

TEST(Runner, AGroupOfAnotherSizeIsRefused) {
  const Order order = testing::order_of("1f1b", 3, 4);
  test::run_ranks(2, [&](Job& job) {
    AffineStages stages(order, job.rank(), 5, 0, 0);
    try {
      run(job.world(), order, stages);
      ADD_FAILURE() << "it ran";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("a pipeline of 3 ranks runs in a group of 2"));
    }
  });
}

Clock::time_point at(int milliseconds) {
  return Clock::time_point(std::chrono::milliseconds(milliseconds));
}

TEST(TraceOperations, ASpanHasTheKindTheMicroBatchTheStageAndTheTimesOfItsOperation) {
  StepReport report;
  report.operations = {{{Kind::forward, 1, 3}, at(5), at(7)},
                       {{Kind::backward, 0, 2}, at(7), at(11)},
                       {{Kind::weight, 0, 2}, at(12), at(13)}};
  TraceLog log;
  trace_operations(report, log);
  EXPECT_TRUE(log.take().empty()) << "nobody enabled it";
  log.enable();
  trace_operations(report, log);
  constexpr std::int64_t kMs = 1'000'000;
  const std::vector<TraceSpan> expected = {
      {TraceLane::stages, "F micro-batch 3 on stage 1", 5 * kMs, 7 * kMs},
      {TraceLane::stages, "B micro-batch 2 on stage 0", 7 * kMs, 11 * kMs},
      {TraceLane::stages, "W micro-batch 2 on stage 0", 12 * kMs, 13 * kMs}};
  EXPECT_EQ(log.take(), expected);
}

}  // namespace

}  // namespace paceline::pipeline
