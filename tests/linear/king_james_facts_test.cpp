// Facts about a real problem, which a mistake in any part of the floor would change: the testaments
// of the Bible by their words, with the smooth hinge and l2 = 0.001.
#include <gtest/gtest.h>

#include "examples/support/king_james.h"
#include "paceline/linear.h"
#include "tests/linear/linear_problems.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"

namespace paceline::linear {
namespace {

using examples::KingJames;

constexpr double kBestPrimal = 0.2310714;

const KingJames& testaments() {
  static const KingJames verses = examples::king_james("testament").value();
  return verses;
}

test::LinearRun run_on_testaments(std::string_view solver, int ranks, int rounds, Split split) {
  static const test::LinearCase one{{.loss = parse_loss("smooth_hinge").value(), .l2 = 1e-3},
                                    testaments().training};
  return test::run_solver(one, solver, ranks, rounds, split);
}

TEST(KingJamesFacts, SdcaFindsTheOptimumInTenEpochs) {
  if (test::is_brief()) GTEST_SKIP() << "numbers alone: without sanitizers, and at night";
  const auto run = run_on_testaments("sdca", 1, 10, Split::shuffled);
  EXPECT_LT(run.objectives.back().gap(), 1e-9);
  EXPECT_NEAR(run.objectives.back().primal, kBestPrimal, 1e-6);
  test::run_ranks(1, [&](Job& job) {
    EXPECT_NEAR(*accuracy(testaments().held_out, run.weights, job.world()), 0.861, 0.003);
  });
}

TEST(KingJamesFacts, OnShuffledVersesAddingNeedsHalfTheRoundsOfAveragingAtMost) {
  if (test::is_brief()) return;  // the numbers are those of the unsanitized run
  const auto adding = run_on_testaments("cocoa_plus", 4, 5, Split::shuffled);
  EXPECT_LT(adding.objectives.back().gap(), 1e-3);
  const auto averaging = run_on_testaments("cocoa", 4, 10, Split::shuffled);
  EXPECT_GT(averaging.objectives.back().gap(), 1e-3);
}

TEST(KingJamesFacts, OnContiguousVersesConsensusFindsTheOptimumAndAddingDoesNot) {
  if (test::is_brief()) return;  // the numbers are those of the unsanitized run
  const auto adding = run_on_testaments("cocoa_plus", 4, 60, Split::contiguous);
  EXPECT_GT(adding.objectives.back().gap(), 0.01);
  const auto consensus = run_on_testaments("admm:penalty=0.003,passes=3", 4, 60, Split::contiguous);
  EXPECT_NEAR(consensus.objectives.back().primal, kBestPrimal, 1e-5);
}

}  // namespace
}  // namespace paceline::linear
