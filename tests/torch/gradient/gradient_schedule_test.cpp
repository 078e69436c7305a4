#include "paceline/torch/gradient/gradient_schedule.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "paceline/core/job/job.h"
#include "tests/support/local_world.h"

namespace paceline::parallel {
namespace {

schedule::ObservedStep step_of(double seconds) {
  return {.arrived = {1, 0}, .arrived_at = {0.001, 0.002}, .seconds = seconds};
}

// Rank 0's times count. A rank that went by its own would plan alone, or be planned for without it:
// then the ranks' next calls differ, which throws.
TEST(GradientSchedule, steps_that_grow_longer_on_one_rank_alone_are_judged_alike_by_all) {
  for (const int slower : {0, 1}) {
    test::run_ranks(2, [&](Job& job) {
      const std::vector<Parameter> dense = {{"weight", at::zeros({8, 8})},
                                            {"bias", at::zeros({8})}};
      GradientSchedule schedule(dense, job.world_size(), {.schedule = "merged"});
      for (int step = 0; schedule.plans() == 0; ++step) {
        ASSERT_LT(step, 10) << "it never plans";
        (void)schedule.next(job.world(), step_of(0.01));
      }
      for (int step = 0; step < 60; ++step)
        (void)schedule.next(job.world(), step_of(step >= 20 && job.rank() == slower ? 0.05 : 0.01));
      EXPECT_EQ(schedule.plans(), slower == 0 ? 2 : 1);
      job.world().barrier().wait();
    });
  }
}

}  // namespace
}  // namespace paceline::parallel
