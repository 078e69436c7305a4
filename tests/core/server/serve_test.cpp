// Servers that are no ranks, as threads: what they keep for the workers of their job.
// Also covers paceline/core/server/declaring.cpp and paceline/core/job/job_extension.cpp.
#include "paceline/core/server/serve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <numeric>

#include "paceline/core/job/job_links.h"
#include "paceline/core/membership/generation/generation_frames.h"
#include "paceline/core/server/server_table.h"
#include "paceline/core/server/table/table_numbers.h"
#include "paceline/core/transport/memory/available_memory.h"
#include "tests/core/server/machine/quadratic_world.h"
#include "tests/support/local_world.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using test::QuadraticWorld;
using testing::Each;
using testing::HasSubstr;

// Runs `work` in each worker and serve() in each server.
void run_job(int workers, int servers, const std::function<void(Job&)>& work,
             bool share_memory = true) {
  const LocalWorldOptions options = {.servers = servers, .share_memory = share_memory};
  test::run_ranks(workers, options, [&](Job& job) {
    if (job.role() == Role::server) serve(job);
    else work(job);
  });
}

std::string refused_with(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// Collects what the workers are told, each in its thread.
class Told {
 public:
  void operator()(std::string what) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(what));
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};

TEST(Serve, SynchronousTrainingHasTheBitsOfOneLoopOverSharedMemoryAndTcp) {
  const std::uint64_t of_seed = test::seed(2960000);
  constexpr int kSteps = 5;
  for (const bool share_memory : {true, false}) {
    for (const int workers : {1, 3}) {
      for (const int servers : {1, 2, 4}) {
        const auto serial = QuadraticWorld::serial<double>(of_seed, workers, kSteps, 0.125);
        run_job(
            workers, servers,
            [&](Job& job) {
              Table table(job, {.name = "w",
                                .elements = QuadraticWorld::kElements,
                                .dtype = Dtype::f64,
                                .part_bytes = 40});
              std::vector<double> values = QuadraticWorld::first(QuadraticWorld::kElements);
              table.assign(buffer_of(values)).wait();
              table.pull(buffer_of(values)).wait();
              while (table.clock() < kSteps) {
                const auto gradient =
                    QuadraticWorld::gradient(of_seed, job.rank(), table.clock(), values);
                table.push(const_buffer_of(gradient),
                           {.rate = 0.125, .weight = QuadraticWorld::weight(job.rank())});
                table.pull(buffer_of(values)).wait();
              }
              EXPECT_EQ(values, serial) << workers << " workers, " << servers << " servers";
            },
            share_memory);
      }
    }
  }
}

TEST(Serve, TheWorldIsTheWorkersAlone) {
  run_job(3, 2, [](Job& job) {
    EXPECT_EQ(job.world_size(), 3);
    EXPECT_EQ(job.servers(), 2);
    EXPECT_EQ(job.world().size(), 3);
    std::vector<float> ones(100'000, 1);
    job.world().all_reduce(buffer_of(ones)).wait();
    EXPECT_THAT(ones, Each(3.0f));
  });
}

TEST(Serve, AServerHasNoRankAndNoWorld) {
  const LocalWorldOptions options = {.servers = 1};
  test::run_ranks(1, options, [](Job& job) {
    if (job.role() == Role::worker) {
      EXPECT_THAT(refused_with([&] { serve(job); }), HasSubstr("this process is rank 0, a worker"));
      return;
    }
    EXPECT_EQ(job.rank(), -1);
    EXPECT_EQ(job.world_size(), 1);
    EXPECT_THAT(refused_with([&] { job.world(); }), HasSubstr("server 0 has no rank in the world"));
    EXPECT_THAT(refused_with([&] { Table(job, {.name = "w", .elements = 1}); }),
                HasSubstr("a server makes no tables"));
    serve(job);
  });
}

TEST(Serve, ManyTablesComeAndGoInOneOrder) {
  run_job(2, 3, [](Job& job) {
    for (int round = 0; round < 3; ++round) {
      Table one(job, {.name = fmt::format("one.{}", round), .elements = 1000, .part_bytes = 64});
      Table two(job, {.name = fmt::format("two.{}", round), .elements = 1});
      std::vector<float> many(1000), single(1);
      std::iota(many.begin(), many.end(), static_cast<float>(round));
      one.assign(const_buffer_of(many)).wait();
      two.assign(const_buffer_of(single)).wait();
      std::vector<float> read(1000);
      one.pull(buffer_of(read)).wait();
      EXPECT_EQ(read, many);
    }
  });
}

TEST(Serve, ATableThatIsMadeAgainBeginsAnew) {
  run_job(2, 2, [](Job& job) {
    for (const float first : {1.5f, 2.5f, 3.5f}) {
      Table table(job, {.name = "w", .elements = 4});
      std::vector<float> values(4, first), read(4);
      table.assign(const_buffer_of(values)).wait();
      table.pull(buffer_of(read)).wait();
      EXPECT_EQ(read, values);
      table.push(const_buffer_of(values)).wait();
    }
  });
}

TEST(Serve, ASecondTableOfANameIsRefusedByItWhileTheFirstLives) {
  run_job(2, 1, [](Job& job) {
    Table first(job, {.name = "w", .elements = 4});
    EXPECT_THAT(refused_with([&] { Table(job, {.name = "w", .elements = 4}); }),
                HasSubstr("table 'w': this job has a table of that name"));
    std::vector<float> values(4, 1);
    first.assign(const_buffer_of(values)).wait();
    Table second(job, {.name = "v", .elements = 4});
  });
}

TEST(Serve, ATableThatNoMemoryHoldsIsRefusedAndTheNextOneIsMade) {
  run_job(2, 1, [](Job& job) {
    for (const std::size_t elements : {std::size_t{1} << 62, std::size_t{1} << 38}) {
      if (elements * 4 - 1 < transport::available_memory()) continue;  // a machine with a tebibyte
      EXPECT_THAT(refused_with([&] { Table(job, {.name = "w", .elements = elements}); }),
                  HasSubstr(fmt::format("table 'w': its {} elements of f32", elements)));
    }
    Table table(job, {.name = "w", .elements = 4});
  });
}

TEST(Serve, ANameThatNoServerReadsIsRefused) {
  run_job(1, 1, [](Job& job) {
    EXPECT_THAT(refused_with([&] { Table(job, {.name = std::string(5000, 'w'), .elements = 4}); }),
                HasSubstr("its name has 5000 characters"));
  });
}

TEST(Serve, AWorkerThatDoesNotMakeATableIsNamedAtTheDeadline) {
  std::latch told(1);
  LocalWorldOptions options = {.servers = 2, .operation_timeout = std::chrono::seconds(2)};
  test::run_ranks(3, options, [&](Job& job) {
    if (job.role() == Role::server) {
      refused_with([&] { serve(job); });
      return;
    }
    if (job.rank() == 1) return told.wait();
    EXPECT_THAT(refused_with([&] { Table(job, {.name = "w", .elements = 4}); }),
                HasSubstr("waits in the making of table 'w' for rank 1, which has not made it"));
    if (job.rank() == 0) told.count_down();
  });
}

// A message that no worker sends stands for a worker of a wrong build.
TEST(Serve, AWorkerThatAServerHearsNoMoreIsToldWhy) {
  run_job(1, 1, [](Job& job) {
    Table first(job, {.name = "w", .elements = 4});
    const job::JobLinks links = job::links_of(job);
    links.reactor->run([&links] {
      links.generation->link(1)->send(
          {.type = membership::frame::kMachine, .sequence = 1, .group = kRegisterGroup},
          std::vector<std::byte>(5));
    });
    EXPECT_EQ(refused_with([&] { Table(job, {.name = "v", .elements = 4}); }),
              "table 'v': server 0 hears this rank no more: a malformed declaration of a table: a "
              "bug, please report it");
  });
}

TEST(Serve, AWorkerThatLeavesWithoutMakingATableIsNamedAtOnce) {
  run_job(3, 1, [](Job& job) {
    if (job.rank() == 1) return;
    EXPECT_THAT(refused_with([&] { Table(job, {.name = "w", .elements = 4}); }),
                HasSubstr("rank 1 has left the job without making table 'w'"));
  });
}

TEST(Serve, WorkersThatDifferInATableAreRefusedByNameWithBothSides) {
  struct Case {
    TableSpec right, wrong;
    std::string told;
  };
  const std::vector<Case> cases = {
      {{.name = "w", .elements = 4},
       {.name = "w", .elements = 5},
       "the workers differ in the elements of table 'w': rank [01] has [45], rank [12] has "
       "[45];.*"},
      {{.name = "w", .elements = 4},
       {.name = "v", .elements = 4},
       "the workers differ in the name of table '[vw]': rank [01] has '[vw]', rank [12] has "
       "'[vw]';.*"},
      {{.name = "w", .elements = 4},
       {.name = "w", .elements = 4, .synchrony = "ssp"},
       ".* in the synchrony of table 'w': rank [01] has b?s?sp, rank [12] has b?s?sp;.*"},
      {{.name = "w", .elements = 4},
       {.name = "w", .elements = 4, .rule = "adam"},
       ".* in the rule of table 'w': rank [01] has (sgd|adam), rank [12] has (sgd|adam);.*"}};
  for (const Case& one : cases) {
    Told told;
    run_job(3, 2, [&](Job& job) {
      told(refused_with([&] { Table(job, job.rank() == 1 ? one.wrong : one.right); }));
      EXPECT_THAT(refused_with([&] { Table(job, {.name = "next", .elements = 1}); }),
                  HasSubstr("the workers differ"))
          << "the order of tables is lost for good";
    });
    EXPECT_EQ(told.all().size(), 3u);
    EXPECT_THAT(told.all(), Each(testing::MatchesRegex(one.told)));
  }
}

TEST(Serve, AServerThatLeavesEarlyIsNamedToEveryWorkerWithTheTable) {
  Told told;
  const LocalWorldOptions options = {.servers = 2};
  test::run_ranks(2, options, [&](Job& job) {
    if (job.role() == Role::server) return;  // without serving
    told(refused_with([&] { Table(job, {.name = "w", .elements = 4}); }));
  });
  EXPECT_EQ(told.all().size(), 2u);
  EXPECT_THAT(told.all(), Each(testing::MatchesRegex("table 'w': server [01] has ended.*")));
}

TEST(Serve, ATableAmongTheRanksIsStillThere) {
  run_job(2, 1, [](Job& job) {
    Table table(job, {.name = "w", .elements = 4}, TableMembers::of_ranks(2));
    std::vector<float> four(4, 1.5f), read(4);
    table.assign(const_buffer_of(four)).wait();
    table.pull(buffer_of(read)).wait();
    EXPECT_EQ(read, four);
  });
}

}  // namespace
}  // namespace paceline::server
