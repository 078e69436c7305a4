#include "paceline/core/schedule/replay/trial.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/base/processors.h"
#include "tests/support/local_world.h"

namespace paceline::schedule {
namespace {

TEST(Processors, RanksOfAMachineHaveEqualSharesOfIt) {
  const double processors = own_processors().count();
  for (const int ranks : {1, 2, 3}) {
    std::vector<double> each(static_cast<std::size_t>(ranks));
    test::run_ranks(ranks, [&each](Job& job) {
      each[static_cast<std::size_t>(job.rank())] = processors_of_each(job.world());
    });
    EXPECT_EQ(each, std::vector<double>(each.size(), processors / ranks));
  }
}

TEST(Processors, WorkIsNeverTakenBack) {
  const double before = worked_seconds();
  EXPECT_GT(before, 0);
  EXPECT_GE(worked_seconds(), before);
}

}  // namespace
}  // namespace paceline::schedule
