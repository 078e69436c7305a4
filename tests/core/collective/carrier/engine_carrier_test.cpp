// The guarantees that core keeps when an engine carries the data; conformance_test.cpp checks the
// results. Also covers paceline/core/collective/engine/enlist.h and
// paceline/core/collective/engine/invitation.h.
#include "paceline/core/collective/carrier/engine_carrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "paceline/core/collective/engine/engine_plugin.h"
#include "paceline/core/job/engine_group.h"
#include "paceline/core/job/job_impl.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/ledger_engine.h"

namespace paceline::collective::testing {
namespace {

using test::Ledger;
using ::testing::HasSubstr;

// One call of f32[2000] sum by each rank of a world that the ledger carries; what each throws.
std::vector<Failure> sums_over(Ledger& ledger, int ranks, std::chrono::milliseconds timeout) {
  std::vector<Failure> failures(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Job& job) {
    const auto held = std::make_shared<std::vector<float>>(2000, 1.0F);
    failures[static_cast<std::size_t>(job.rank())] = failure_of([&] {
      const auto group = test::world_over(job, ledger, timeout);
      group->all_reduce(buffer_of(*held)).wait();
    });
  });
  return failures;
}

TEST(EngineCarrier, AnEngineGetsNoCallThatDiffers) {
  Ledger& ledger = Ledger::make();
  run_ranks(3, [&](Job& job) {
    std::vector<float> values(10);
    const auto failure = failure_of([&] {  // a slow rank hears of it while it makes its group
      const auto group = test::world_over(job, ledger, 60s);
      if (job.rank() == 1) group->barrier().wait();
      else group->all_reduce(buffer_of(values)).wait();
    });
    EXPECT_EQ(failure.fault, Fault::mismatch) << failure.what;
    EXPECT_THAT(failure.what, HasSubstr("all_reduce f32[10] sum by ledger"));
  });
  EXPECT_EQ(ledger.handed_over(), 0);
}

TEST(EngineCarrier, AnEngineThatNeverEndsEndsWithTheDeadline) {
  Ledger& ledger = Ledger::make();
  ledger.finishes = false;
  run_ranks(3, [&](Job& job) {
    std::vector<float> values(2000, 1);
    const auto group = test::world_over(job, ledger, 60s);
    const auto failure =
        failure_of([&] { group->all_reduce(buffer_of(values), {.within = 200ms}).wait(); });
    EXPECT_EQ(failure.fault, Fault::timed_out) << failure.what;
    if (ledger.handed_over() < 3) return;  // a rank came that late
    EXPECT_THAT(failure.what, HasSubstr("the data, which the library of its engine carries"));
  });
}

TEST(EngineCarrier, WhatAnEngineSaysIsToldToAllRanks) {
  Ledger& ledger = Ledger::make();
  ledger.failure = "the ledger is lost";
  for (const Failure& failure : sums_over(ledger, 3, 60s)) {
    EXPECT_EQ(failure.fault, Fault::io);
    EXPECT_EQ(failure.what, ledger.failure);
  }
}

TEST(EngineCarrier, ALibraryThatNeverComesTogetherEndsWithTheDeadline) {
  Ledger& ledger = Ledger::make();
  ledger.comes_together = false;
  for (const Failure& failure : sums_over(ledger, 2, 500ms)) {
    EXPECT_EQ(failure.fault, Fault::timed_out);
    EXPECT_THAT(failure.what, HasSubstr("came together in the ledger library"));
  }
}

TEST(EngineCarrier, TheInvitationOfTheFirstRankReachesAllOfItsGroup) {
  Ledger& ledger = Ledger::make();
  ledger.invitation = "come";
  run_ranks(3, [&](Job& job) {
    const auto group = test::world_over(job, ledger, 60s);
    const auto pair = group->split(job.rank() == 1 ? -1 : 0);
    std::vector<float> values(10, 1);
    group->all_reduce(buffer_of(values)).wait();
    EXPECT_EQ(values[9], 3);
  });
  EXPECT_EQ(ledger.invited(), 3 + 2);
}

TEST(EngineCarrier, AFirstRankThatNeverInvitesEndsWithTheDeadline) {
  Ledger& ledger = Ledger::make();
  ledger.invitation = "come";
  run_ranks(2, [&](Job& job) {
    if (job.rank() == 0) {
      EXPECT_EQ(failure_of([&] { job.world().recv(Buffer{}, 1).wait(); }).fault, Fault::timed_out);
      return;
    }
    const auto failure = failure_of([&] { (void)test::world_over(job, ledger, 60ms); });
    EXPECT_EQ(failure.fault, Fault::timed_out) << failure.what;
  });
}

TEST(EngineCarrier, ARankWhoseLibraryFailsHearsOfOthersNoMoreThroughItsInvitation) {
  Ledger& ledger = Ledger::make();
  ledger.invitation = "come";
  ledger.cannot_start = 1;
  std::latch failed(1);
  run_ranks(2, [&](Job& job) {
    if (job.rank() == 0) return failed.wait();  // then it leaves
    const auto failure = failure_of([&] { (void)test::world_over(job, ledger, 60s); });
    EXPECT_THAT(failure.what, HasSubstr("it cannot start here"));
    failed.count_down();
    bool departed = false;
    for (const auto deadline = Deadline::in(10s); !departed && !deadline.passed();)
      job.impl().reactor->run([&] { departed = job.impl().generation->has_departed(0); });
    EXPECT_TRUE(departed);
  });
}

TEST(EngineCarrier, WhatAnEngineCannotCarryIsMisuseThatNamesWhatCan) {
  Ledger& ledger = Ledger::make();
  ledger.longest = 99;
  run_ranks(2, {.reproducible = false}, [&](Job& job) {
    const auto group = test::world_over(job, ledger, 60s);
    std::vector<float> values(100, 1);
    const auto failure = failure_of([&] { (void)group->all_reduce(buffer_of(values)); });
    EXPECT_EQ(failure.fault, Fault::misuse);
    EXPECT_EQ(failure.what, "all_reduce f32[100] sum: the ledger is too small: take a program");
    group->all_reduce(buffer_of(values), {.algorithm = "ring"}).wait();
    EXPECT_EQ(values, std::vector<float>(100, 2));
  });
  EXPECT_EQ(ledger.handed_over(), 0);
}

TEST(EnginePlugin, ThatIsMissingIsMisuseWithTheFileThePlacesAndTheRemedy) {
  const auto failure = load_engine("of_nobody", {"/nowhere"}).error();
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("/nowhere/libpaceline_of_nobody.so"));
  EXPECT_THAT(failure.what, HasSubstr("scripts/setup --launchers"));
}

TEST(EngineGroup, RefusesRanksThatTheJobDoesNotHave) {
  run_ranks(1, [](Job& job) {
    const auto never = [](bool) { return false; };
    for (const std::vector<int>& ranks : {std::vector{0, 1}, std::vector<int>{}})
      EXPECT_EQ(failure_of([&] { (void)job::engine_group(job, "of_nobody", ranks, never); }).fault,
                Fault::misuse);
  });
}

}  // namespace
}  // namespace paceline::collective::testing
