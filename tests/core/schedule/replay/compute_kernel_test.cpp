#include "paceline/core/schedule/replay/compute_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/core/base/result.h"
#include "tests/support/every_target.h"

namespace paceline::schedule {
namespace {

TEST(ComputeKernel, ItsWorkIsProportionalToTheTimeThatIsAskedFor) {
  for (const double rate : {0.5, 1.0, 1000.0, 7777.0}) {
    for (const double seconds : {0.0, 0.25, 0.5, 1.0}) {
      ComputeKernel kernel(rate);
      kernel.work(seconds);
      EXPECT_EQ(kernel.rounds(), std::floor(seconds * rate)) << rate << " a second";
    }
  }
}

TEST(ComputeKernel, ManyShortPiecesAreAsMuchWorkAsTheirSum) {
  ComputeKernel pieces(1024), whole(1024);
  for (int i = 0; i < 4096; ++i) pieces.work(0x1p-12);  // a quarter of a round each
  whole.work(1);
  EXPECT_EQ(pieces.rounds(), whole.rounds());
  EXPECT_EQ(pieces.sum(), whole.sum());
}

TEST(ComputeKernel, NoTimeOrLessIsNoWork) {
  ComputeKernel kernel(1e6);
  kernel.work(0);
  kernel.work(-1);
  EXPECT_EQ(kernel.rounds(), 0u);
}

TEST(ComputeKernel, EveryRoundComputesWhateverTheInstructions) {
  ComputeKernel expected(1);
  expected.work(60);
  EXPECT_NE(expected.sum(), 0);
  test::for_each_target([&] {
    ComputeKernel kernel(1);
    double before = 0;
    for (int round = 0; round < 60; ++round) {
      kernel.work(1);
      EXPECT_NE(kernel.sum(), before);
      before = kernel.sum();
    }
    EXPECT_NEAR(kernel.sum(), expected.sum(), 1e-2);
  });
}

TEST(ComputeKernel, IsCalibratedToARateThatIsOne) {
  const ComputeKernel kernel = ComputeKernel::calibrated();
  EXPECT_GT(kernel.rounds_per_second(), 0);
  EXPECT_EQ(kernel.rounds(), 0u);
  EXPECT_THROW(ComputeKernel(0), Error);
  EXPECT_THROW(ComputeKernel(std::numeric_limits<double>::infinity()), Error);
}

}  // namespace
}  // namespace paceline::schedule
