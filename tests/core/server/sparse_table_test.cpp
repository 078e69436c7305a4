// Sparse tables on real links: among threads, over memory that they share and over TCP.
// Also covers paceline/core/server/served_table.h.
#include "paceline/core/server/sparse_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>

#include "paceline/core/server/serve.h"
#include "tests/core/server/sparse/sparse_world.h"
#include "tests/support/local_world.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using test::SparseWork;
using testing::HasSubstr;

// Runs `work` in each worker; without servers the workers serve.
void run_sparse(int workers, int servers, bool share_memory,
                const std::function<void(Job&)>& work) {
  const LocalWorldOptions options = {.servers = servers, .share_memory = share_memory};
  test::run_ranks(workers, options, [&](Job& job) {
    if (job.role() == Role::server) serve(job);
    else work(job);
  });
}

std::vector<float> train_rows(SparseTable& table, int worker, const SparseWork& work,
                              bool prefetches) {
  for (std::int64_t step = 0; step < work.steps; ++step) {
    const auto ids = work.ids(worker, step);
    std::vector<float> rows(ids.size() * work.width);
    table.pull(ids, buffer_of(rows)).wait();
    if (prefetches) table.prefetch(work.ids(worker, step + 1));
    table.push(ids, const_buffer_of(work.gradient(worker, step, rows)),
               {.weight = work.weight(worker)});
  }
  table.quiesce().wait();
  std::vector<float> all(SparseWork::kIds * work.width);
  table.pull(SparseWork::all_ids(), buffer_of(all)).wait();
  return all;
}

std::string sparse_refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(SparseTable, BspHasTheBitsOfADenseTableOverSharedMemoryAndTcp) {
  for (const bool share_memory : {true, false}) {
    for (const int servers : {0, 1, 2, 3, 7}) {
      const SparseWork work{.seed = test::seed(3240000), .workers = 3};
      const SparseTableSpec spec{.name = "u", .width = work.width, .rule = "adagrad:rate=0.1"};
      const auto dense = work.dense<float>(
          shape_of(spec, TableMembers::of_servers(3, std::max(servers, 1))).value());
      run_sparse(3, servers, share_memory, [&](Job& job) {
        SparseTable table(job, spec);
        EXPECT_EQ(train_rows(table, job.rank(), work, servers % 2 == 0), dense) << servers;
        EXPECT_EQ(table.clock(), work.steps);
      });
    }
  }
}

TEST(SparseTable, EverySynchronyTrainsToTheSameRowsOnAllWorkers) {
  for (const char* synchrony : {"bsp", "ssp:staleness=1", "asp"}) {
    const SparseWork work{.seed = test::seed(3250000), .workers = 3, .steps = 30};
    std::mutex mutex;
    std::vector<std::vector<float>> ends;
    run_sparse(3, 2, true, [&](Job& job) {
      SparseTable table(job, {.name = "u", .width = work.width, .synchrony = synchrony});
      auto end = train_rows(table, job.rank(), work, true);
      EXPECT_GT(table.figures().hashes, 20u);
      EXPECT_GT(table.figures().rows_ahead, 0u);
      EXPECT_GT(table.figures().rows, 20u);
      const std::lock_guard lock(mutex);
      ends.push_back(std::move(end));
    });
    EXPECT_THAT(ends, testing::Each(ends.front())) << synchrony;
  }
}

TEST(SparseTable, RowsComeAndGoWithTheSameBitsOnAnyNumberOfServers) {
  const SparseWork work{.seed = test::seed(4150000), .workers = 3, .steps = 12};
  const SparseTableSpec spec{.name = "u",
                             .width = work.width,
                             .rule = "adagrad:rate=0.1",
                             .admit_after = 3,
                             .evict_after = 2};
  std::mutex mutex;
  std::vector<std::vector<float>> ends;
  for (const int servers : {0, 1, 2, 3, 7})
    run_sparse(3, servers, servers != 2, [&](Job& job) {
      SparseTable table(job, spec);
      auto end = train_rows(table, job.rank(), work, servers % 2 == 0);
      EXPECT_GT(table.figures().rows_counted, 0u);
      EXPECT_GT(table.figures().rows_evicted, 0u);
      EXPECT_LT(table.figures().rows, SparseWork::kIds - 3);
      const std::lock_guard lock(mutex);
      ends.push_back(std::move(end));
    });
  EXPECT_THAT(ends, testing::Each(ends.front()));
}

// Half of the steps, then the rows go to a job of other numbers, with the rule's state.
TEST(SparseTable, SavedRowsGoOnOnAnyNumberOfServersAndWorkersWithTheSameBits) {
  const SparseWork work{.seed = test::seed(3270000), .workers = 2, .steps = 12};
  for (const auto& [rule, evict_after] :
       {std::pair{"adagrad", 0}, {"adagrad:per=row", 0}, {"sgd", 0}, {"adam", 0}, {"adagrad", 2}}) {
    const SparseTableSpec spec{
        .name = "u", .width = work.width, .rule = rule, .evict_after = evict_after};
    std::vector<float> whole;
    run_sparse(2, 1, true, [&](Job& job) {
      SparseTable table(job, spec);
      auto end = train_rows(table, job.rank(), work, false);
      if (job.rank() == 0) whole = std::move(end);
    });
    for (const auto& [before, after] : {std::pair{1, 3}, {7, 2}, {3, 0}}) {
      SparseWork half = work;
      half.steps = work.steps / 2;
      std::vector<StoredRows> saved(2);
      run_sparse(2, before, true, [&](Job& job) {
        SparseTable table(job, spec);
        train_rows(table, job.rank(), half, true);
        saved[static_cast<std::size_t>(job.rank())] = table.stored(job.rank(), 2);
        table.quiesce().wait();
      });
      run_sparse(2, after, true, [&](Job& job) {
        SparseTable table(job, spec);
        if (job.rank() == 1)
          for (const StoredRows& rows : saved) table.store(rows);
        table.quiesce().wait();
        for (std::int64_t step = half.steps; step < work.steps; ++step) {
          const auto ids = work.ids(job.rank(), step);
          std::vector<float> rows(ids.size() * work.width);
          table.pull(ids, buffer_of(rows)).wait();
          table.push(ids, const_buffer_of(work.gradient(job.rank(), step, rows)),
                     {.weight = work.weight(job.rank())});
        }
        table.quiesce().wait();
        std::vector<float> all(SparseWork::kIds * work.width);
        table.pull(SparseWork::all_ids(), buffer_of(all)).wait();
        EXPECT_EQ(all, whole) << rule << ", " << before << " servers, then " << after;
      });
    }
  }
}

TEST(SparseTable, LongArcsAreSavedPieceByPieceAndEachRowOnce) {
  run_sparse(1, 1, true, [](Job& job) {
    SparseTable table(job, {.name = "u", .width = 8192, .synchrony = "asp", .rule = "sgd"});
    std::vector<std::int64_t> ids(4000);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
    for (std::size_t first = 0; first < ids.size(); first += 500) {
      const std::vector<float> gradients(500 * 8192);
      table.push(std::span(ids).subspan(first, 500), const_buffer_of(gradients)).wait();
    }
    table.quiesce().wait();
    std::vector<std::int64_t> saved;
    for (int part = 0; part < 3; ++part) {
      const StoredRows rows = table.stored(part, 3);
      EXPECT_NEAR(static_cast<double>(rows.ids.size()), 4000.0 / 3, 200);
      saved.insert(saved.end(), rows.ids.begin(), rows.ids.end());
    }
    std::ranges::sort(saved);
    EXPECT_EQ(saved, ids);
    EXPECT_THAT(sparse_refusal([&] { table.store({.ids = {1}, .values = {}}); }),
                HasSubstr("the width, dtype or rule is another one"));
  });
}

TEST(SparseTable, AnUnseenIdIsReadAlikeByAllAndStoresNothing) {
  std::mutex mutex;
  std::vector<std::vector<float>> reads;
  run_sparse(2, 2, true, [&](Job& job) {
    SparseTable table(job, {.name = "u", .width = 4, .synchrony = "asp"});
    const std::vector<std::int64_t> ids = {7, 7, (std::int64_t{1} << 48) - 1};
    for (int time = 0; time < 2; ++time) {
      std::vector<float> rows(12);
      table.pull(ids, buffer_of(rows)).wait();
      const std::lock_guard lock(mutex);
      reads.push_back(rows);
    }
    table.quiesce().wait();
    EXPECT_EQ(table.figures().rows, 0u);
  });
  EXPECT_THAT(reads, testing::Each(reads.front()));
}

TEST(SparseTable, AWorkerThatNeverPullsPushesAsFastAsTheSlowest) {
  run_sparse(2, 1, true, [](Job& job) {
    SparseTable table(job, {.name = "u",
                            .width = 1,
                            .synchrony = "ssp:staleness=1",
                            .rule = "sgd:rate=1",
                            .spread = 0});
    const std::vector<float> one = {-1};
    for (int step = 0; step < 20; ++step)
      table.push(std::vector<std::int64_t>{3}, const_buffer_of(one));
    table.quiesce().wait();
    std::vector<float> row(1);
    table.pull(std::vector<std::int64_t>{3}, buffer_of(row)).wait();
    EXPECT_EQ(row[0], 20);
  });
}

// The first worker has a batch more: its last step closes when the other one rests.
TEST(SparseTable, ARestClosesTheStepOfAWorkerThatHasMoreBatches) {
  for (const int servers : {0, 1}) {
    std::vector<float> seen(2);
    run_sparse(2, servers, true, [&](Job& job) {
      SparseTable table(job, {.name = "u", .width = 1, .rule = "sgd:rate=1"});
      const std::vector<std::int64_t> ids = {5};
      std::vector<float> row(1), gradient = {-1};
      for (int step = 0; step < (job.rank() == 0 ? 2 : 1); ++step) {
        table.pull(ids, buffer_of(row)).wait();
        table.push(ids, const_buffer_of(gradient));
      }
      const auto begin = Clock::now();
      std::optional<Answer> rests;
      if (job.rank() == 0)
        rests = table.quiesce();  // before the other one, whom its last step awaits
      job.world().barrier().wait();
      if (job.rank() == 1) rests = table.quiesce();
      rests->wait();
      EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2)) << "nobody had to ask";
      table.pull(ids, buffer_of(row)).wait();
      seen[static_cast<std::size_t>(job.rank())] = row[0];
    });
    EXPECT_EQ(seen[0], seen[1]);
  }
}

TEST(SparseTable, BadInputIsRefusedBeforeTheFirstStep) {
  run_sparse(1, 1, true, [](Job& job) {
    EXPECT_THAT(sparse_refusal([&] { SparseTable(job, {.name = "u", .width = 0}); }),
                HasSubstr("its rows have 0 elements"));
    SparseTable table(job, {.name = "u", .width = 2});
    EXPECT_THAT(sparse_refusal([&] { SparseTable(job, {.name = "u", .width = 2}); }),
                HasSubstr("this job has a table of that name"));
    std::vector<float> rows(2);
    EXPECT_THAT(sparse_refusal([&] {
                  table.pull(std::vector<std::int64_t>{std::int64_t{1} << 48}, buffer_of(rows));
                }),
                HasSubstr("ids of a sparse table have 48 bits"));
    EXPECT_THAT(sparse_refusal([&] {
                  table.pull(std::vector<std::int64_t>{1, 2}, buffer_of(rows));
                }),
                HasSubstr("2 ids of sparse table 'u' have 4 elements"));
    EXPECT_THAT(sparse_refusal([&] {
                  table.push(std::vector<std::int64_t>{1}, const_buffer_of(rows), {.weight = -1});
                }),
                HasSubstr("its weight is -1"));
    EXPECT_THAT(sparse_refusal(
                    [&] { Table(job, {.name = "w", .elements = 4, .rule = "adagrad:per=row"}); }),
                HasSubstr("per"));
  });
}

TEST(SparseTable, WorkersThatDifferInItsWidthAreRefusedWithBothSides) {
  for (const int servers : {2, 0}) {
    std::mutex mutex;
    std::vector<std::string> told;
    run_sparse(2, servers, true, [&](Job& job) {
      const std::string why = sparse_refusal([&] {
        SparseTable(job, {.name = "u", .width = static_cast<std::size_t>(4 + job.rank())});
      });
      const std::lock_guard lock(mutex);
      told.push_back(why);
    });
    EXPECT_EQ(told.size(), 2u);
    EXPECT_THAT(
        told, testing::Each(servers > 0 ? HasSubstr("the workers differ in the width of table 'u'")
                                        : HasSubstr("its width")));
  }
}

TEST(SparseTable, WorkersThatDifferInTheAgesOfItsRowsAreRefusedWithBothSides) {
  for (const char* const setting : {"admit_after", "evict_after"}) {
    const bool admits = setting == std::string("admit_after");
    std::mutex mutex;
    std::vector<std::string> told;
    run_sparse(2, 2, true, [&](Job& job) {
      const std::string why = sparse_refusal([&] {
        SparseTable(job, {.name = "u",
                          .width = 4,
                          .admit_after = admits ? 1 + job.rank() : 1,
                          .evict_after = admits ? 9 : 9 + job.rank()});
      });
      const std::lock_guard lock(mutex);
      told.push_back(why);
    });
    EXPECT_THAT(told, testing::Each(HasSubstr(
                          fmt::format("the workers differ in the {} of table 'u'", setting))));
  }
}

TEST(SparseTable, IsToldFromATableOfNumbersOfItsName) {
  std::mutex mutex;
  std::vector<std::string> told;
  run_sparse(2, 1, true, [&](Job& job) {
    const std::string why = sparse_refusal([&] {
      if (job.rank() == 0) SparseTable(job, {.name = "u", .width = 4});
      else Table(job, {.name = "u", .elements = 4});
    });
    const std::lock_guard lock(mutex);
    told.push_back(why);
  });
  EXPECT_THAT(told, testing::Each(HasSubstr("the workers differ in the kind of table 'u'")));
}

}  // namespace
}  // namespace paceline::server
