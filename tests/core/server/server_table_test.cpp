// Tables on real links: among threads, over memory that they share and over TCP.
// Also covers paceline/core/job/job_links.cpp.
#include "paceline/core/server/server_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <numeric>

#include "paceline/core/job/job_links.h"
#include "tests/core/server/machine/quadratic_world.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using test::QuadraticWorld;
using testing::HasSubstr;

TableMembers table_members(int workers, int servers) {
  TableMembers members;
  for (int i = 0; i < workers; ++i) members.workers.push_back(i);
  for (int i = 0; i < servers; ++i) members.servers.push_back(workers + i);
  return members;
}

// Descends the quadratics; returns the values that the worker has at the end.
template <typename T>
std::vector<double> train_worker(Table& table, int worker, std::uint64_t of_seed, int steps) {
  const auto first = QuadraticWorld::first(QuadraticWorld::kElements);
  std::vector<T> values(first.begin(), first.end());
  if (worker > 0) values.assign(values.size(), T(7));  // only the first worker's values count
  table.assign(buffer_of(values)).wait();
  table.pull(buffer_of(values)).wait();
  while (table.clock() < steps) {
    const auto wide = QuadraticWorld::gradient(of_seed, worker, table.clock(),
                                               std::vector<double>(values.begin(), values.end()));
    const std::vector<T> gradient(wide.begin(), wide.end());
    table.push(const_buffer_of(gradient),
               {.rate = 0.125, .weight = QuadraticWorld::weight(worker)});
    table.pull(buffer_of(values)).wait();
  }
  return {values.begin(), values.end()};
}

template <typename T>
void expect_bits_of_one_loop(const std::string& synchrony, int workers, int servers,
                             const LocalWorldOptions& options) {
  const std::uint64_t of_seed = test::seed(2940000);
  constexpr int kSteps = 5;
  const auto serial = QuadraticWorld::serial<T>(of_seed, workers, kSteps, T(0.125));
  const TableSpec spec = {.name = "w",
                          .elements = QuadraticWorld::kElements,
                          .dtype = dtype_of<T>(),
                          .synchrony = synchrony,
                          .part_bytes = 5 * sizeof(T)};
  std::optional<TableMembers> members;
  if (servers > 0) members = table_members(workers, servers);
  test::run_ranks(workers + servers, options, [&](Job& job) {
    Table table(job, spec, members);
    if (!table.is_worker()) return;
    EXPECT_EQ(train_worker<T>(table, job.rank(), of_seed, kSteps), serial)
        << synchrony << ", " << workers << " workers, " << servers << " servers";
    EXPECT_EQ(table.clock(), kSteps);
  });
}

TEST(ServerTable, SynchronousTrainingHasTheBitsOfOneLoopOverSharedMemoryAndTcp) {
  for (const bool share_memory : {true, false}) {
    for (const int workers : {1, 2, 3, 4}) {
      if (test::is_brief() && workers != 3) continue;
      for (const int servers : {0, 1, 2, 4}) {  // 0: the workers serve
        const LocalWorldOptions options = {.share_memory = share_memory};
        expect_bits_of_one_loop<float>("bsp", workers, servers, options);
        expect_bits_of_one_loop<double>("ssp:staleness=0", workers, servers, options);
      }
    }
  }
}

TEST(ServerTable, EveryModelOfConsistencyTrainsToTheEnd) {
  const std::uint64_t of_seed = test::seed(2950000);
  for (const char* synchrony :
       {"ssp", "asp", "bounded_delay:steps=2", "backup_workers",
        "timeout:milliseconds=1,late=apply_late", "timeout:milliseconds=1,late=fold_into_next"}) {
    std::latch all_have_ended(3);
    test::run_ranks(5, [&](Job& job) {
      Table table(job,
                  {.name = "w",
                   .elements = QuadraticWorld::kElements,
                   .dtype = Dtype::f64,
                   .synchrony = synchrony,
                   .part_bytes = 40},
                  table_members(3, 2));
      if (!table.is_worker()) return;
      auto values = train_worker<double>(table, job.rank(), of_seed, 40);
      // A worker that ends before the others has not seen their last steps.
      all_have_ended.arrive_and_wait();
      table.pull(buffer_of(values)).wait();
      // Its minima lie in 0 .. 1, and the drawn noise keeps the values near their mean.
      EXPECT_THAT(values, testing::Each(testing::AllOf(testing::Gt(0.0), testing::Lt(1.0))))
          << synchrony;
    });
  }
}

// All contribute their numbers, again and again, and the mean of those is what they read at rest.
TEST(ServerTable, AConsensusIsMadeOfWhatAllHaveContributedLastOverSharedMemoryAndTcp) {
  for (const bool share_memory : {true, false}) {
    for (const char* synchrony : {"admm:barrier=3", "admm:barrier=2,delay=3", "admm:barrier=1"}) {
      test::run_ranks(5, {.share_memory = share_memory}, [&](Job& job) {
        Table table(job,
                    {.name = "z",
                     .elements = QuadraticWorld::kElements,
                     .dtype = Dtype::f64,
                     .synchrony = synchrony,
                     .rule = "add",
                     .part_bytes = 40},
                    table_members(3, 2));
        if (!table.is_worker()) return;
        std::vector<double> values(QuadraticWorld::kElements, 7);
        table.assign(buffer_of(values)).wait();
        const int steps = 20 + 10 * job.rank();
        for (int step = 1; step <= steps; ++step) {
          values.assign(values.size(), 3 * step + job.rank());
          table.push(const_buffer_of(values));
          table.pull(buffer_of(values)).wait();
          EXPECT_THAT(values, testing::Each(values[0])) << synchrony;
        }
        table.quiesce(buffer_of(values)).wait();
        EXPECT_THAT(values, testing::Each(testing::DoubleEq((60. + 91. + 122.) / 3))) << synchrony;
        for (const auto& [staleness, count] : table.figures().staleness) EXPECT_LT(staleness, 5U);
      });
    }
  }
}

TEST(ServerTable, DifferencesOfAllWorkersAddUp) {
  test::run_ranks(3, [](Job& job) {
    Table table(job, {.name = "sum",
                      .elements = 1000,
                      .dtype = Dtype::f64,
                      .synchrony = "ssp:staleness=2,update=worker",
                      .rule = "add",
                      .part_bytes = 256});
    std::vector<double> values(1000), difference(1000);
    table.assign(buffer_of(values)).wait();
    for (int step = 0; step < 20; ++step) {
      table.pull(buffer_of(values)).wait();
      EXPECT_GE(values[job.rank()], step) << "own pushes are there";
      difference.assign(1000, 0);
      difference[static_cast<std::size_t>(job.rank())] = 1;
      table.push(const_buffer_of(difference)).wait();
    }
    job.world().barrier().wait();
    table.pull(buffer_of(values)).wait();
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0), 60);
  });
}

// Adam on one table, or on two that follow each other, on other servers.
TEST(ServerTable, ARestBringsTheStateOfTheRuleWithWhichAnotherTableGoesOn) {
  const std::uint64_t of_seed = test::seed(2970000);
  const auto trained = [&](std::vector<int> servers, int steps_of_each) {
    std::vector<double> end;
    test::run_ranks(5, [&](Job& job) {
      std::vector<double> values = QuadraticWorld::first(QuadraticWorld::kElements);
      RuleState state;
      std::int64_t clock = 0;
      for (const int count : servers) {
        Table table(job,
                    {.name = fmt::format("w.{}", count),
                     .elements = QuadraticWorld::kElements,
                     .dtype = Dtype::f64,
                     .rule = "adam:rate=0.05",
                     .part_bytes = 40},
                    table_members(2, count));
        if (!table.is_worker()) continue;
        table.assign(buffer_of(values), state).wait();
        for (int step = 0; step < steps_of_each; ++step) {
          const auto gradient = QuadraticWorld::gradient(of_seed, job.rank(), clock++, values);
          table.push(const_buffer_of(gradient));
          table.pull(buffer_of(values)).wait();
        }
        std::vector<double> quiet(values.size());
        table.quiesce(buffer_of(quiet)).wait();
        EXPECT_EQ(quiet, values);
        state = table.take_rule_state();
        EXPECT_EQ(state.steps, clock);
        EXPECT_EQ(state.slots.size(), 2u);
        EXPECT_EQ(table.figures().version, static_cast<std::uint64_t>(steps_of_each));
        EXPECT_EQ(table.figures().staleness.at(0), static_cast<std::uint64_t>(steps_of_each));
      }
      if (job.rank() == 0) end = values;
    });
    return end;
  };
  EXPECT_EQ(trained({3, 1}, 4), trained({2}, 8));
}

TEST(ServerTable, AWorkerThatRestsHoldsUpNobody) {
  test::run_ranks(3, [](Job& job) {
    Table table(job, {.name = "w", .elements = 9, .synchrony = "ssp:staleness=1", .part_bytes = 8});
    std::vector<float> values(9), ones(9, 1);
    table.assign(buffer_of(values)).wait();
    for (int step = 0; step < 4 * job.rank(); ++step) {
      table.push(const_buffer_of(ones), {.rate = 3});
      table.pull(buffer_of(values)).wait();
    }
    table.quiesce(buffer_of(values)).wait();
    EXPECT_THAT(values, testing::Each(-12.0f)) << "4 + 8 pushes, each of which counts for a third";
    EXPECT_EQ(table.clock(), 8);
  });
}

TEST(ServerTable, LongPartsTravelWhole) {
  test::run_ranks(2, [](Job& job) {
    constexpr std::size_t kElements = (std::size_t{3} << 20) + 7;
    Table table(job, {.name = "long", .elements = kElements, .synchrony = "bsp"});
    std::vector<float> values(kElements), gradient(kElements, 1);
    std::iota(values.begin(), values.end(), 0.0f);
    table.assign(buffer_of(values)).wait();
    table.push(const_buffer_of(gradient), {.rate = 1}).wait();
    std::vector<float> read(kElements);
    table.pull(buffer_of(read)).wait();
    std::iota(values.begin(), values.end(), 0.0f);
    for (float& one : values) one -= 1;
    EXPECT_TRUE(read == values);
  });
}

std::string refusal_at(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(ServerTable, WrongCallsAreMisuse) {
  test::run_ranks(2, [](Job& job) {
    Table table(job, {.name = "w", .elements = 4}, table_members(1, 1));
    std::vector<float> four(4), five(5);
    if (!table.is_worker()) {
      EXPECT_THAT(refusal_at([&] { table.pull(buffer_of(four)); }), HasSubstr("only serves"));
      return;
    }
    EXPECT_THAT(refusal_at([&] { table.pull(buffer_of(five)); }),
                HasSubstr("table 'w' has 4 elements of f32 in host memory, and the buffer has 5"));
    EXPECT_THAT(refusal_at([&] {
                  table.assign(buffer_of(four), {.slots = {{}, {}}});
                }),
                HasSubstr("the state of sgd has 1 slots of the table's 16 bytes"));
    table.assign(buffer_of(four)).wait();
    EXPECT_THAT(refusal_at([&] {
                  table.push(buffer_of(four), {.settings = {{"beta", 1}}});
                }),
                HasSubstr("sgd has no setting 'beta'"));
    table.push(buffer_of(four)).wait();
    EXPECT_THAT(refusal_at([&] { table.push(buffer_of(four)); }),
                HasSubstr("must be pulled between two pushes"));
  });
}

TEST(ServerTable, TablesThatDifferBetweenMembersAreRefusedByName) {
  std::mutex mutex;
  std::vector<std::string> refusals;
  test::run_ranks(3, [&](Job& job) {
    Table table(job, {.name = "w", .elements = 4, .rule = job.rank() == 1 ? "adam" : "sgd"},
                table_members(2, 1));
    if (!table.is_worker()) return;
    std::vector<float> four(4);
    const std::string what = refusal_at([&] {
      table.assign(buffer_of(four)).wait();
      table.pull(buffer_of(four)).wait();
      table.push(buffer_of(four)).wait();
      table.pull(buffer_of(four)).wait();
    });
    const std::lock_guard lock(mutex);
    refusals.push_back(what);
  });
  EXPECT_THAT(refusals, testing::Each(HasSubstr("table 'w': member 1 means another table")));
}

TEST(ServerTable, AServerThatEndsIsNamedToEveryWorker) {
  std::mutex mutex;
  std::vector<std::string> refusals;
  test::run_ranks(3, [&](Job& job) {
    auto table =
        std::make_unique<Table>(job, TableSpec{.name = "w", .elements = 4}, table_members(2, 1));
    std::vector<float> four(4);
    if (!table->is_worker()) {
      job.world().barrier().wait();
      refusal_at([&] {
        struct EndedByException {
          std::unique_ptr<Table> table;
        } ended{std::move(table)};
        throw Error({Fault::io, "the server's own fault", {}});
      });
      return;
    }
    table->assign(buffer_of(four)).wait();
    job.world().barrier().wait();
    const std::string what = refusal_at([&] {
      for (;;) {
        table->pull(buffer_of(four)).wait();
        table->push(buffer_of(four)).wait();
      }
    });
    const std::lock_guard lock(mutex);
    refusals.push_back(what);
  });
  EXPECT_EQ(refusals.size(), 2u);
  EXPECT_THAT(refusals, testing::Each(HasSubstr("member 2, a server of table 'w', has ended")));
}

}  // namespace
}  // namespace paceline::server
