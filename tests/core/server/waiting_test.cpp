// Waits for servers on real links: whom the lines and the failures name (MachineRun::wait_and_ask).
// Also covers paceline/core/server/made_tables.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "paceline/core/server/serve.h"
#include "paceline/core/server/server_table.h"
#include "tests/support/local_world.h"

namespace paceline::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

std::string failure_text(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return fmt::format("{}: {}", name_of(error.fault()), error.what());
  }
  return "none";
}

// Worker 0 waits in `wait` for worker 1, which comes when that has failed.
struct SaidOfWait {
  std::string lines, failure;
};
using HeldTable = std::unique_ptr<Table>;
SaidOfWait wait_of(const std::string& synchrony,
                   const std::function<void(HeldTable&, Buffer)>& wait,
                   const std::optional<TableMembers>& members = {}) {
  const LocalWorldOptions options = {
      .servers = members ? 0 : 2, .operation_timeout = 400ms, .stall_time = 50ms};
  std::latch over(1);
  SaidOfWait waited;
  testing::internal::CaptureStderr();
  test::run_ranks(2, options, [&](Job& job) {
    failure_text([&] {
      if (job.role() == Role::server) return serve(job);
      const TableSpec spec = {.name = "w", .elements = 4, .synchrony = synchrony, .part_bytes = 8};
      auto table = std::make_unique<Table>(job, spec, members);
      std::vector<float> values(4);
      table->assign(buffer_of(values)).wait();
      table->pull(buffer_of(values)).wait();
      if (job.rank() == 1) return over.wait();
      waited.failure = failure_text([&] { wait(table, buffer_of(values)); });
      over.count_down();
    });
  });
  waited.lines = testing::internal::GetCapturedStderr();
  return waited;
}

TEST(Waiting, AWorkerThatIsBehindIsNamedAtTheStallTimeAndAtTheDeadline) {
  struct Case {
    std::string synchrony, what, lacks;
    std::function<void(HeldTable&, Buffer)> wait;
  };
  const auto push = [](HeldTable& table, Buffer values) { table->push(values).wait(); };
  const auto pull = [](HeldTable& table, Buffer values) {
    for (int step = 0; step < 3; ++step) {
      table->push(values);
      table->pull(values).wait();
    }
  };
  const auto quiesce = [](HeldTable& table, Buffer values) { table->quiesce(values).wait(); };
  const Case cases[] = {{"bsp", "push", "pushed at clock 0", push},
                        {"ssp:staleness=1", "pull", "pushed at clock 0", pull},
                        {"bounded_delay:steps=1", "pull", "pushed at clock 0", pull},
                        {"timeout:quorum=2", "pull", "pushed at clock 0", pull},
                        {"asp", "quiesce", "quiesced", quiesce}};
  for (const Case& one : cases) {
    const std::string waits = fmt::format(
        "rank 0 waits in {} of table 'w' for rank 1, which has not {}", one.what, one.lacks);
    const SaidOfWait waited = wait_of(one.synchrony, one.wait);
    EXPECT_THAT(waited.lines, HasSubstr("paceline: stall: for 0.05 s " + waits + "\n"));
    EXPECT_THAT(waited.failure, AllOf(testing::StartsWith("timed out: deadline: " + waits + "; "),
                                      HasSubstr("look at what rank 1 does. ")));
  }
}

TEST(Waiting, AmongRanksTheyAreNamedToo) {
  const SaidOfWait waited = wait_of(
      "bsp", [](HeldTable& table, Buffer values) { table->push(values).wait(); },
      TableMembers::of_ranks(2));
  const std::string waits =
      "rank 0 waits in push of table 'w' for rank 1, which has not pushed at clock 0";
  EXPECT_THAT(waited.lines, HasSubstr("paceline: stall: for 0.05 s " + waits + "\n"));
  EXPECT_THAT(waited.failure, HasSubstr("deadline: " + waits));
}

TEST(Waiting, WhoeverEndsATableAmongRanksNamesThoseThatHaveNotEndedIt) {
  const SaidOfWait waited = wait_of(
      "bsp", [](HeldTable& table, Buffer) { table.reset(); }, TableMembers::of_ranks(2));
  EXPECT_THAT(waited.lines, HasSubstr("stall: for 0.05 s rank 0 waits in the end of table 'w' for "
                                      "rank 1, which has not ended it\n"));
}

}  // namespace
}  // namespace paceline::server
