// Waits for servers on real links: whom the lines and the failures name (MachineRun::wait_and_ask),
// of sparse tables and of LbfgsOnServers too.
// Also covers paceline/core/server/made_tables.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "paceline/core/membership/generation/generation_frames.h"
#include "paceline/core/server/lbfgs_on_servers.h"
#include "paceline/core/server/serve.h"
#include "paceline/core/server/server_table.h"
#include "paceline/core/server/sparse_table.h"
#include "tests/support/local_world.h"
#include "tests/support/test_link.h"

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

using Through = decltype(LocalWorldOptions::through);

// Worker 0 waits in `wait` for worker 1, which comes when that has failed.
struct SaidOfWait {
  std::string lines, failure;
};
using HeldTable = std::unique_ptr<Table>;
SaidOfWait wait_of(const std::string& synchrony,
                   const std::function<void(HeldTable&, Buffer)>& wait,
                   const std::optional<TableMembers>& members = {}, const Through& through = {}) {
  const LocalWorldOptions options = {.servers = members ? 0 : 2,
                                     .operation_timeout = 400ms,
                                     .stall_time = 50ms,
                                     .through = through};
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

// One rank waits in what `make` returns, and the other comes when that has failed.
SaidOfWait wait_in_job(int waiter, const std::function<std::function<void()>(Job&)>& make) {
  const LocalWorldOptions options = {.servers = 2, .operation_timeout = 400ms, .stall_time = 50ms};
  std::latch over(1);
  SaidOfWait waited;
  testing::internal::CaptureStderr();
  test::run_ranks(2, options, [&](Job& job) {
    failure_text([&] {
      if (job.role() == Role::server) return serve(job);
      const auto wait = make(job);
      job.world().barrier().wait();
      if (job.rank() != waiter) return over.wait();
      waited.failure = failure_text(wait);
      over.count_down();
    });
  });
  waited.lines = testing::internal::GetCapturedStderr();
  return waited;
}

TEST(Waiting, SparseTablesNameTheWorkerThatIsBehind) {
  const std::vector<std::int64_t> ids = {3, 5};
  std::vector<float> rows(4);
  using Calls = std::function<void(SparseTable&)>;
  const auto push = [&](SparseTable& table) { table.push(ids, const_buffer_of(rows)).wait(); };
  const auto pull = [&](SparseTable& table) {
    table.push(ids, const_buffer_of(rows));
    table.pull(ids, buffer_of(rows)).wait();
  };
  for (const auto& [what, calls] :
       {std::pair("push", Calls(push)), std::pair("pull", Calls(pull))}) {
    const SaidOfWait waited = wait_in_job(0, [&, calls = calls](Job& job) {
      const auto table =
          std::make_shared<SparseTable>(job, SparseTableSpec{.name = "rows", .width = 2});
      return [table, calls] { calls(*table); };
    });
    const std::string waits = fmt::format(
        "rank 0 waits in {} of sparse table 'rows' for rank 1, which has not pushed at clock 0",
        what);
    EXPECT_THAT(waited.lines, HasSubstr("paceline: stall: for 0.05 s " + waits + "\n"));
    EXPECT_THAT(waited.failure, HasSubstr("timed out: "));
    EXPECT_THAT(waited.failure, HasSubstr("deadline: " + waits + "; "));
  }
}

TEST(Waiting, AnIterationOnServersNamesTheRankThatLeadsIt) {
  const SaidOfWait waited = wait_in_job(1, [](Job& job) {
    std::vector<float> first(8);
    const auto lbfgs = std::make_shared<LbfgsOnServers>(
        job, LbfgsSettings{.elements = first.size(), .samples = 100}, const_buffer_of(first));
    return [lbfgs] { lbfgs->iterate([](const PortionWork&) { return 1.0; }); };
  });
  const std::string waits =
      "rank 1 waits in an iteration of 'sandblaster' for rank 0, which has not ended iteration 1";
  EXPECT_THAT(waited.lines, HasSubstr("paceline: stall: for 0.05 s " + waits + "\n"));
  EXPECT_THAT(waited.failure, HasSubstr("deadline: " + waits + "; "));
}

// A link over a network that has become slow: messages of machines do not arrive any more, while
// the link says that a MiB has left at each look, and 10 are left.
class SlowLink final : public test::TestLink {
 public:
  SlowLink(std::unique_ptr<Link> inner, const std::atomic<bool>& is_slow)
      : TestLink(std::move(inner)), is_slow_(is_slow) {}

  void send(const transport::FrameHeader& header, Bytes payload, transport::SendListener* listener,
            std::uint64_t cookie) override {
    if (is_slow_ && header.type == membership::frame::kMachine) return;
    inner_->send(header, payload, listener, cookie);
  }
  transport::LinkProgress progress() const override {
    return {.sent = looks_++ << 20, .unsent = 10 << 20};
  }

 private:
  const std::atomic<bool>& is_slow_;
  mutable std::uint64_t looks_ = 0;
};

TEST(Waiting, AServerIsNotBlamedWhileWhatIsPushedIsStillBeingSent) {
  std::atomic<bool> is_slow = false;
  const Through through = [&](int rank, int peer, std::unique_ptr<transport::Link> link) {
    if (rank != 0 || peer < 2) return link;
    return std::unique_ptr<transport::Link>(std::make_unique<SlowLink>(std::move(link), is_slow));
  };
  const SaidOfWait waited = wait_of(
      "bsp",
      [&](HeldTable& table, Buffer values) {
        is_slow = true;
        table->push(values).wait();
      },
      {}, through);
  const std::string waits =
      "rank 0 waits in push of table 'w' for server 0, to which 10.0 MiB are "
      "still being sent (";
  EXPECT_THAT(waited.lines,
              AllOf(HasSubstr("paceline: stall: for 0.05 s " + waits),
                    HasSubstr("; server 1, to which 10.0 MiB are still being sent (")));
  EXPECT_THAT(waited.failure, AllOf(testing::StartsWith("timed out: deadline: " + waits),
                                    HasSubstr("the network to servers 0, 1 is slow")));
}

}  // namespace
}  // namespace paceline::server
