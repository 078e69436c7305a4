#include "paceline/torch/gradient/gradient_schedule.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <set>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/core/server/serve.h"
#include "tests/support/local_world.h"

namespace paceline::gradient {
namespace {

schedule::ObservedStep step_of(double seconds) {
  return {.arrived = {1, 0}, .arrived_at = {0.001, 0.002}, .seconds = seconds};
}

// Rank 0's times count. A rank that went by its own would plan alone, or be planned for without it:
// then the ranks' next calls differ, which throws.
TEST(GradientSchedule, StepsThatGrowLongerOnOneRankAloneAreJudgedAlikeByAll) {
  for (const int slower : {0, 1}) {
    test::run_ranks(2, [&](Job& job) {
      const std::vector<replica::Parameter> dense = {{"weight", at::zeros({8, 8})},
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

schedule::Path path_of(const GradientLayout& layout) {
  return layout.plan.groups.front().path;
}

// With any distance between the forecasts, both ways are tried.
TEST(GradientSchedule, TheWayThatWasFasterWhenBothWereTriedIsTakenByAll) {
  using schedule::Path;
  for (const char* name : {"buckets", "merged"}) {
    for (const Path faster : {Path::all_to_all, Path::server}) {
      LocalWorldOptions world;
      world.servers = 1;
      test::run_ranks(2, world, [&](Job& job) {
        if (job.role() == Role::server) return serve(job);
        const std::vector<replica::Parameter> dense = {{"weight", at::zeros({8, 8})},
                                                       {"bias", at::zeros({8})}};
        GradientSchedule schedule(dense, job.world_size(),
                                  {.schedule = name, .aggregate = "automatic"}, &job, INFINITY);
        GradientLayout layout = schedule.first();
        int steps = 0, changes = 0;
        std::set<Path> taken;
        const auto step = [&] {
          auto next = schedule.next(job.world(), step_of(path_of(layout) == faster ? 0.01 : 0.02));
          if (next) layout = std::move(*next);
          return next.has_value();
        };
        while (schedule.plans() == 0 && ++steps < 10) step();
        for (std::size_t i = 0; i < 2 * (schedule::PathTrial::kSteps + 1); ++i) {
          taken.insert(path_of(layout));
          changes += step() ? 1 : 0;
        }
        EXPECT_EQ(taken.size(), 2U) << name << ": both ways were tried";
        EXPECT_LE(changes, 2);
        EXPECT_EQ(path_of(layout), faster) << name;
        for (int i = 0; i < 30; ++i) EXPECT_FALSE(step()) << name << ": the choice stands";
        job.world().barrier().wait();
      });
    }
  }
}

}  // namespace
}  // namespace paceline::gradient
