// Claims that hold for every schedule of the catalogue.
#include "paceline/core/pipeline/order/schedule_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/pipeline/check/check_order.h"
#include "paceline/core/pipeline/check/simulate_order.h"
#include "tests/core/pipeline/orders.h"
#include "tests/support/numbers.h"
#include "tests/support/seed.h"

namespace paceline::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ScheduleCatalogue, EveryOrderRunsAndTakesTheTimeAndTheMemoryOfItsClosedForm) {
  const StageSeconds unit{1, 1, 1};
  for (const auto& one : testing::order_cases(8, 24)) {
    const Schedule& schedule = one.choice.entry;
    ASSERT_TRUE(check_order(one.order).has_value()) << one.text();
    EXPECT_EQ(one.order.split_backward, schedule.splits_backward);
    EXPECT_EQ(one.order.placement().chunks(), schedule.chunks_of(one.choice.settings));
    const auto run = simulate_order(one.order, equal_costs(one.order, unit)).value();
    const double closed =
        schedule.makespan(one.ranks, one.micro_batches, unit, one.choice.settings);
    EXPECT_NEAR(run.makespan, closed, 1e-9) << one.text();
    EXPECT_NEAR(run.idle_share, 1 - one.micro_batches * 3 / closed, 1e-9) << one.text();
    const auto peaks = peak_live(one.order);
    for (int rank = 0; rank < one.ranks; ++rank) {
      EXPECT_EQ(peaks[static_cast<std::size_t>(rank)],
                schedule.live(rank, one.ranks, one.micro_batches, one.choice.settings))
          << one.text() << ", rank " << rank;
    }
  }
}

TEST(ScheduleCatalogue, TheClosedFormsHoldForAnyTimes) {
  SeededNumbers numbers(test::seed(4101));
  for (const auto& one : testing::order_cases(6, 8)) {
    const auto draw = [&] { return static_cast<double>(1 + numbers.below(8)); };
    const StageSeconds seconds{draw(), draw(), draw()};
    const auto run = simulate_order(one.order, equal_costs(one.order, seconds)).value();
    EXPECT_NEAR(
        run.makespan,
        one.choice.entry.makespan(one.ranks, one.micro_batches, seconds, one.choice.settings), 1e-9)
        << one.text();
  }
}

TEST(ScheduleCatalogue, EveryStageAddsItsGradientsInTheOrderOfTheMicroBatches) {
  for (const auto& one : testing::order_cases(5, 10)) {
    const Kind adds = one.order.split_backward ? Kind::weight : Kind::backward;
    std::vector<int> next(static_cast<std::size_t>(one.order.stages), 0);
    for (const auto& own : one.order.ranks) {
      for (const Operation& operation : own) {
        if (operation.kind != adds) continue;
        EXPECT_EQ(operation.micro_batch, next[static_cast<std::size_t>(operation.stage)]++)
            << one.text();
      }
    }
  }
}

TEST(ScheduleCatalogue, UnknownSchedulesAndSettingsAreToldTheKnownOnes) {
  EXPECT_THAT(parse_schedule("1f2b").error().what,
              AllOf(HasSubstr("no pipeline schedule '1f2b'"),
                    HasSubstr("sequential, gpipe, 1f1b, interleaved, zero_bubble, pipedream, "
                              "pipedream_2bw"),
                    HasSubstr("did you mean 1f1b")));
  EXPECT_THAT(parse_schedule("pipedream:sync=diagonal").error().what,
              AllOf(HasSubstr("stash"), HasSubstr("vertical")));
  EXPECT_THAT(parse_schedule("interleaved:chunks=1").error().what, HasSubstr("from 2"));
  EXPECT_EQ(parse_schedule("interleaved").value().text(), "interleaved:chunks=2");
}

TEST(ScheduleCatalogue, AShapeThatAScheduleHasNotIsRefusedWithBothSidesAndTheRemedy) {
  const auto refusal = [](std::string_view schedule, int ranks, int micro_batches, int batches) {
    return make_order(parse_schedule(schedule).value(), ranks, micro_batches, batches).error().what;
  };
  EXPECT_THAT(refusal("interleaved", 4, 6, 1),
              AllOf(HasSubstr("6 micro-batches are no multiple of 4 ranks"),
                    HasSubstr("give 4 or 8, or choose 1f1b")));
  EXPECT_THAT(refusal("pipedream_2bw", 5, 3, 2),
              AllOf(HasSubstr("at least 4 micro-batches on 5 ranks, and it has 3"),
                    HasSubstr("or choose pipedream")));
  EXPECT_THAT(refusal("1f1b", 4, 8, 2),
              AllOf(HasSubstr("one batch and not 2"), HasSubstr("pipedream")));
  EXPECT_THAT(refusal("gpipe", 4, 0, 1), HasSubstr("at least one of each"));
}

TEST(ScheduleCatalogue, WithoutAFlushAnOrderGoesOverAllBatches) {
  const auto choice = parse_schedule("pipedream_2bw").value();
  EXPECT_EQ(make_order(choice, 3, 4, 5).value().micro_batches, 20);
}

}  // namespace
}  // namespace paceline::pipeline
