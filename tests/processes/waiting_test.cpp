// The processor time of waiting for a rank that does not come.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tests/support/carriers.h"
#include "tests/support/launched.h"
#include "tests/support/nightly.h"

namespace paceline::test {
namespace {

class Waiting : public ::testing::TestWithParam<Carrier> {
 protected:
  void SetUp() override {
    if (const std::string why = missing(GetParam()); !why.empty())
      GTEST_SKIP() << "NOT TESTED: " << why;
  }
};

TEST_P(Waiting, BurnsLessThanAFiftiethOfACoreAfterTenMilliseconds) {
  const char* const late = is_nightly() ? "3000" : "1500";
  const auto result = run_by(GetParam(), 2, {binary("patient"), late});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.output;
  int waits = 0;
  for (const std::string& line : lines_of(result.output)) {
    const auto at = line.find("burnt ");
    if (at == std::string::npos) continue;
    EXPECT_LT(std::atof(line.substr(line.rfind(' ')).c_str()), 2) << line;
    ++waits;
  }
  EXPECT_EQ(waits, 4) << result.output;
}

// Rank 1 computes for a millisecond or two and then stands still for 300, so its part of the sum
// takes longer than after how many seconds without movement a stall is told, on fast machines too.
TEST(LongReduction, OnABoardThatIsSlowButMovesIsNotToldAsAStall) {
  constexpr std::chrono::milliseconds kLong = 8s, kPause = 300ms, kTurn = 1ms;
  Process launcher(
      paceline_run({"-n", "2", "--transport", "shm"}, {binary("collective_worker"), "long:512"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.output() << launcher.error();
  const auto begin = Clock::now();
  while (Clock::now() < begin + kLong) {
    ::kill(pids[1], SIGSTOP);
    std::this_thread::sleep_for(kPause);
    ::kill(pids[1], SIGCONT);
    std::this_thread::sleep_for(kTurn);
  }
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(60s))), 0) << launcher.error();
  for (int rank = 0; rank < 2; ++rank) {
    const std::string line = fmt::format("[{}] long right ", rank);
    const auto at = launcher.output().find(line);
    ASSERT_NE(at, std::string::npos) << launcher.output();
    EXPECT_GT(std::atof(launcher.output().c_str() + at + line.size()), 6) << launcher.output();
  }
  EXPECT_EQ(launcher.error().find("stall"), std::string::npos) << launcher.error();
}

INSTANTIATE_TEST_SUITE_P(Of, Waiting, ::testing::ValuesIn(carriers()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace paceline::test
