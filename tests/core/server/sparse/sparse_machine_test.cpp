// The protocol of a sparse table in virtual time.
// Also covers paceline/core/server/sparse/share_machine.cpp and
// paceline/core/server/sparse/sparse_worker.cpp.
#include "paceline/core/server/sparse/sparse_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/server/sparse/sparse_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using test::SparseWork;
using test::SparseWorld;
using testing::HasSubstr;

constexpr machine::NetworkFaults kStorm = {.loss = 0.1, .duplication = 0.1, .overtaking = true};

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(SparseMachine, BspHasTheBitsOfADenseTableInAnyWeatherWithAndWithoutPrefetch) {
  const int seeds = test::is_nightly() ? 3000 : test::is_brief() ? 10 : 100;
  for (int number = 0; number < seeds; ++number) {
    const SparseWork work{.seed = test::seed(3160000 + static_cast<std::uint64_t>(number)),
                          .workers = 1 + number % 4};
    const SparseTableSpec spec{.name = "u", .width = work.width, .rule = "adagrad:rate=0.1"};
    for (const bool prefetches : {false, true}) {
      SparseWorld world(spec, 1 + number % 3, work,
                        number % 2 == 0 ? kStorm : machine::NetworkFaults{}, prefetches);
      ASSERT_TRUE(world.run()) << "seed " << work.seed;
      const auto dense = work.dense<float>(world.shape);
      for (const int worker : world.shape.members.workers)
        ASSERT_EQ(floats(world.members[static_cast<std::size_t>(worker)]->values()), dense)
            << "seed " << work.seed << ", prefetch " << prefetches;
    }
  }
}

TEST(SparseMachine, SspOfStalenessZeroHasTheBitsOfBsp) {
  for (int number = 0; number < 20; ++number) {
    const SparseWork work{.seed = test::seed(3170000 + static_cast<std::uint64_t>(number))};
    SparseWorld world({.name = "u",
                       .width = work.width,
                       .synchrony = "ssp:staleness=0",
                       .rule = "adagrad:rate=0.1"},
                      2, work, kStorm, number % 2 == 0);
    ASSERT_TRUE(world.run()) << "seed " << work.seed;
    EXPECT_EQ(floats(world.members[1]->values()), work.dense<float>(world.shape));
  }
}

// Pushes of one stamp are one step of the table, as those of a step are.
TEST(SparseMachine, RowsComeAndGoUnderSspOfStalenessZeroAsUnderBspOnAnyNumberOfServers) {
  for (int number = 0; number < 20; ++number) {
    const SparseWork work{.seed = test::seed(4130000 + static_cast<std::uint64_t>(number)),
                          .steps = 12};
    const auto values = [&](const char* synchrony, int servers, int admit_after, int evict_after) {
      SparseWorld world({.name = "u",
                         .width = work.width,
                         .synchrony = synchrony,
                         .rule = "adagrad:rate=0.1",
                         .admit_after = admit_after,
                         .evict_after = evict_after},
                        servers, work, kStorm, number % 2 == 0);
      EXPECT_TRUE(world.run()) << "seed " << work.seed;
      return floats(world.members[1]->values());
    };
    const int admit_after = 1 + number % 5, evict_after = 1 + number % 4;
    const auto bsp = values("bsp", 1, admit_after, evict_after);
    EXPECT_NE(bsp, values("bsp", 1, 0, 0)) << "seed " << work.seed;
    EXPECT_EQ(values("bsp", 3, admit_after, evict_after), bsp) << "seed " << work.seed;
    EXPECT_EQ(values("ssp:staleness=0", 2, admit_after, evict_after), bsp) << "seed " << work.seed;
  }
}

// The rule sgd adds up what was pushed, so a lost or doubled push shows in the sums. Gradients do
// not depend on rows here, for the order of pushes differs.
TEST(SparseMachine, EachPushCountsOnceUnderSspAndAspInAnyWeather) {
  for (const char* synchrony : {"ssp:staleness=2", "ssp:best_effort=on", "asp"}) {
    for (int number = 0; number < (test::is_brief() ? 5 : 30); ++number) {
      const SparseWork work{.seed = test::seed(3180000 + static_cast<std::uint64_t>(number)),
                            .has_equal_weights = true};
      SparseWorld world({.name = "u",
                         .width = work.width,
                         .dtype = Dtype::f64,
                         .synchrony = synchrony,
                         .rule = "sgd:rate=1e-9"},
                        2, work, kStorm, number % 2 == 0);
      ASSERT_TRUE(world.run()) << synchrony << ", seed " << work.seed;
      const std::vector<double> dense = work.dense<double>(world.shape);
      std::vector<double> values(dense.size());
      const auto& bytes = world.members[0]->values();
      std::memcpy(values.data(), bytes.data(), bytes.size());
      // Rows hardly move, so gradients are the same to 1e-7 of what they move them.
      for (std::size_t i = 0; i < dense.size(); ++i) ASSERT_NEAR(values[i], dense[i], 1e-14);
      for (const int server : world.shape.members.servers)
        EXPECT_EQ(world.share(server).pushes(), work.workers * work.steps);
    }
  }
}

TEST(SparseMachine, RepeatedListsTravelAsHashesAndALostCacheIsAnsweredByAMiss) {
  const SparseWork work{.seed = test::seed(3190000), .workers = 2, .steps = 60};
  for (const bool loses : {false, true}) {
    SparseWorld world({.name = "u", .width = work.width, .rule = "adagrad:rate=0.1"}, 2, work, {});
    for (int at = 1; at < 2000 && !world.all_are_done(); ++at) {
      world.network.run(std::chrono::milliseconds(at));
      if (loses && at % 3 == 0)
        for (const int server : world.shape.members.servers) world.share(server).forget_lists();
    }
    ASSERT_TRUE(world.all_are_done());
    EXPECT_EQ(floats(world.members[0]->values()), work.dense<float>(world.shape));
    const auto traffic =
        world.members[0]->table.look([](const auto& one) { return one.traffic(); });
    if (loses) {
      EXPECT_GT(traffic.unknown, 10u);
    } else {
      EXPECT_EQ(traffic.unknown, 0u);
      EXPECT_GT(traffic.hashes, traffic.lists) << "a push names the list of the pull before it";
    }
  }
}

TEST(SparseMachine, PullsStoreNothing) {
  SparseWork work{.seed = test::seed(3200000), .steps = 1};
  SparseWorld world({.name = "u", .width = work.width}, 2, work, {});
  ASSERT_TRUE(world.run());
  std::set<std::int64_t> pushed;
  for (int worker = 0; worker < work.workers; ++worker)
    for (const std::int64_t id : work.ids(worker, 0)) pushed.insert(id);
  EXPECT_EQ(world.rows_stored(), pushed.size());
}

TEST(SparseMachine, AWorkerThatDiesHoldsUpNobody) {
  for (int number = 0; number < 20; ++number) {
    SparseWork work{.seed = test::seed(3210000 + static_cast<std::uint64_t>(number))};
    SparseWorld world({.name = "u", .width = work.width, .synchrony = number % 2 ? "bsp" : "ssp"},
                      2, work, {});
    world.network.kill(2, std::chrono::microseconds(500 + 700 * number));
    for (int at = 10; at < 2000; at += 10) world.network.run(std::chrono::milliseconds(at));
    EXPECT_TRUE(world.members[0]->is_done() && world.members[1]->is_done()) << number;
    EXPECT_EQ(world.members[0]->values(), world.members[1]->values());
  }
}

TEST(SparseMachine, AWorkerThatMeansAnotherTableIsRefused) {
  const SparseShape right =
      shape_of(SparseTableSpec{.name = "u", .width = 4}, TableMembers::of_servers(2, 1)).value();
  const SparseShape wrong =
      shape_of(SparseTableSpec{.name = "u", .width = 5}, TableMembers::of_servers(2, 1)).value();
  SparseMachine server(right, 2), worker(wrong, 1);
  worker.do_work([](SparseWorker& one, machine::Time now) { return one.start(now); });
  const auto begins = worker.on_message(1, {.kind = SparseMachine::kWork}, {});
  for (const auto& action : server.on_message(1, std::get<machine::Send>(begins[0]).message, {}))
    if (std::get<machine::Send>(action).to == 1)
      worker.on_message(2, std::get<machine::Send>(action).message, {});
  ASSERT_TRUE(worker.failure());
  EXPECT_THAT(worker.failure()->what, HasSubstr("its width"));
}

TEST(SparseMachine, AShareNamesThoseForWhomAWorkerWaits) {
  const SparseShape shape =
      shape_of(SparseTableSpec{.name = "u", .width = 4}, TableMembers::of_servers(2, 1)).value();
  SparseMachine server(shape, 2), worker(shape, 0);
  const auto perform = [&](SparseMachine::Work work) {
    worker.do_work(std::move(work));
    auto actions = worker.on_message(0, {.kind = SparseMachine::kWork}, {});
    for (const auto& action : actions)
      for (const auto& answer : server.on_message(0, std::get<machine::Send>(action).message, {}))
        worker.on_message(2, std::get<machine::Send>(answer).message, {});
  };
  const auto text = [&] {
    perform([](SparseWorker& one, machine::Time) { return one.ask(); });
    return worker.look([](const SparseWorker& one) { return one.awaited(); }).text(2);
  };
  perform([](SparseWorker& one, machine::Time now) { return one.start(now); });
  EXPECT_EQ(text(), "what is under way") << "nobody is to blame";
  const SharedPlan plan = plan_of(std::vector<std::int64_t>{1, 2}, shape);
  perform([&](SparseWorker& one, machine::Time) {
    return one.push(plan, {std::vector<std::byte>(32)}, 1, 0.1);
  });
  EXPECT_THAT(text(), HasSubstr("rank 1, which has not pushed at clock 0"));
  perform([](SparseWorker& one, machine::Time) { return one.quiesce(); });
  EXPECT_THAT(text(), HasSubstr("rank 1, which has not come to rest"));
}

}  // namespace
}  // namespace paceline::server
