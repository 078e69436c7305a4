#include <fmt/format.h>
#include <gmock/gmock.h>

#include "examples/support/king_james.h"
#include "paceline/linear/threads/sample_steps.h"
#include "tests/linear/threads/sparse_logistic.h"
#include "tests/support/seed.h"

namespace paceline::linear::cyclades_test {
namespace {

using ::testing::HasSubstr;

TEST(Cyclades, HasTheBitsOfOneLoopOnAnyThreadsWithAnyBatch) {
  const Samples samples = test::sparse_samples(1000, 7000, 5, test::seed(2600000));
  const Problem problem = test::logistic_problem(1e-5);
  const auto expected = test::solved_by_one_loop(problem, samples, 2);
  for (const int threads : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const int batch : {10, 250, 100000}) {
      const auto solver = fmt::format("cyclades:threads={},batch={}", threads, batch);
      ASSERT_EQ(test::solved_alone(solver, problem, samples, 2).weights, expected) << solver;
    }
  }
}

TEST(Cyclades, AlsoInBatchesOfOneSample) {
  const Samples samples = test::sparse_samples(100, 100, 5, test::seed(2605000));
  const Problem problem = test::logistic_problem(1e-3);
  EXPECT_EQ(test::solved_alone("cyclades:threads=3,batch=1", problem, samples, 2).weights,
            test::solved_by_one_loop(problem, samples, 2));
}

TEST(Cyclades, WhereCommonFeaturesJoinTheSamplesItSaysSoAndNamesHogwild) {
  const Samples verses =
      examples::king_james("testament").value().held_out;  // fewer than for training
  const Problem problem = {.loss = parse_loss("smooth_hinge").value(), .l2 = 1e-3};
  const auto solved = test::solved_alone("cyclades:threads=2,batch=64", problem, verses, 1);
  EXPECT_EQ(solved.weights, test::solved_by_one_loop(problem, verses, 1));
  EXPECT_THAT(solved.remark,
              HasSubstr("the largest component of a batch of 64 samples holds 100 % of its work"));
  EXPECT_THAT(solved.remark, HasSubstr("Choose hogwild"));
  EXPECT_EQ(test::solved_alone("cyclades:threads=1", problem, verses, 1).remark, "");
  EXPECT_EQ(
      test::solved_alone("cyclades:threads=2", problem, test::disjoint_samples(1000, 1), 1).remark,
      "");
}

}  // namespace
}  // namespace paceline::linear::cyclades_test
