// Shares that chains of servers keep: servers are killed at random, before and inside any event,
// suspected, replaced and moved, while workers leave and end.
// Also covers paceline/core/server/sparse/share_state.cpp,
// paceline/core/server/sparse/share_chain.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/server/sparse/sparse_chain_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

int sparse_worlds(int normal) {
  return is_nightly() ? 100 * normal : is_brief() ? std::max(1, normal / 10) : normal;
}

SparseWork counted_work(std::uint64_t of_seed, int steps = 10) {
  return {.seed = of_seed, .workers = 4, .steps = steps, .has_equal_weights = true, .counts = true};
}

constexpr const char* kLoose[] = {"asp", "ssp:staleness=2", "ssp:best_effort=on",
                                  "ssp:staleness=0"};

TEST(SparseChains, NoAnsweredPushIsLostOrCountsTwiceWhateverEndsAtRandom) {
  std::size_t compared = 0, most_logged = 0;
  int kills = 0, suspicions = 0;
  for (int number = 0; number < sparse_worlds(150); ++number) {
    const std::uint64_t of_seed = seed(3610000 + static_cast<std::uint64_t>(number));
    SparseWork work = counted_work(of_seed);
    work.leaves = number % 3 == 0;
    SparseChainWorld world(SparseChainWorld::counting(work, kLoose[number % 4]), 2 + number % 2,
                           work, kSparseWeather, number % 5 == 0);
    SeededNumbers numbers(of_seed);
    world.chains.has_leases = number % 8 > 3;
    plan_troubles_of(world.chains, numbers, {.kills = 3, .moves = 3, .suspicions = number % 2});
    ASSERT_EQ(world.run(), "") << kLoose[number % 4] << ", seed " << number;
    if (work.leaves) {
      EXPECT_TRUE(world.all_servers_end()) << "seed " << number;
    }
    compared += world.chains.compared;
    kills += world.chains.kills;
    suspicions += world.chains.suspicions;
    most_logged = std::max(most_logged, world.chains.most_logged);
  }
  EXPECT_GT(compared, 500U) << "states of servers were compared";
  EXPECT_GT(kills, is_brief() ? 3 : 150);
  EXPECT_GT(suspicions, is_brief() ? 1 : 30);
  // Each worker with a window of pushes, its rest and its end.
  EXPECT_LE(most_logged, 4U * (server::kWindow + 2) + 1);
}

// The server is killed before its nth event, or inside it when it has carried out some actions.
TEST(SparseChains, OutliveTheEndOfAServerAtAnyEventAndInsideIt) {
  int ends = 0;
  for (int number = 0; number < sparse_worlds(150); ++number) {
    const std::uint64_t of_seed = seed(3620000 + static_cast<std::uint64_t>(number));
    SeededNumbers numbers(of_seed);
    const SparseWork work = counted_work(of_seed, 6);
    SparseChainWorld world(SparseChainWorld::counting(work, kLoose[number % 4]), 2 + number % 2,
                           work);
    const int victim = work.workers + static_cast<int>(numbers.below(3));
    world.chains.server(victim).end = {
        .event = 1 + numbers.below(150),
        .actions = numbers.below(4) == 0 ? std::nullopt : std::optional(numbers.below(3))};
    ASSERT_EQ(world.run(), "") << kLoose[number % 4] << ", seed " << number;
    ends += world.chains.kills;
  }
  EXPECT_GT(ends, sparse_worlds(150) / 2);
}

// Workers rest as soon as they have made their last push, while others still work on that step.
TEST(SparseChains, BspHasTheBitsOfADenseTableWithAndWithoutPrefetch) {
  for (int number = 0; number < sparse_worlds(150); ++number) {
    const std::uint64_t of_seed = seed(3630000 + static_cast<std::uint64_t>(number));
    const SparseWork work{.seed = of_seed, .workers = 1 + number % 4, .steps = 10};
    const bool calm = number % 5 == 4;
    SparseChainWorld world({.name = "u", .width = work.width, .rule = "adagrad:rate=0.1"},
                           2 + number % 2, work, calm ? machine::NetworkFaults{} : kSparseWeather,
                           number % 3 == 0);
    SeededNumbers numbers(of_seed);
    plan_troubles_of(world.chains, numbers,
                     {.kills = 3, .moves = 2, .suspicions = calm ? 0 : number % 2});
    ASSERT_EQ(world.run(), "") << "seed " << number;
    const auto dense = work.dense<float>(world.shape);
    for (const auto& [worker, trainer] : world.workers)
      ASSERT_EQ(world.values<float>(worker), dense) << "seed " << number;
  }
}

// Lazy Adam and a state of one number a row: as on one server.
TEST(SparseChains, EveryRuleHasTheBitsOfOneServer) {
  for (int number = 0; number < sparse_worlds(40); ++number) {
    const char* const all[] = {"adagrad:per=row", "adam", "sgd:rate=0.1",
                               "adagrad:rate=0.1,rate_decay=0.5"};
    const std::uint64_t of_seed = seed(3640000 + static_cast<std::uint64_t>(number));
    const SparseWork work{.seed = of_seed, .steps = 10};
    const server::SparseTableSpec spec{
        .name = "u", .width = work.width, .dtype = Dtype::f64, .rule = all[number % 4]};
    SparseWorld alone(spec, 3, work, {});
    ASSERT_TRUE(alone.run());
    SparseChainWorld world(spec, 2 + number % 2, work);
    SeededNumbers numbers(of_seed);
    plan_troubles_of(world.chains, numbers, {.kills = 3, .moves = 1});
    ASSERT_EQ(world.run(), "") << "seed " << number;
    EXPECT_EQ(world.workers.at(0)->values(), alone.members[0]->values())
        << all[number % 4] << ", seed " << number;
  }
}

// All that is counted, past its age or swept is as on one server.
TEST(SparseChains, RowsComeAndGoAlikeOnAllServersOfAChain) {
  std::uint64_t counted = 0, evicted = 0;
  for (int number = 0; number < sparse_worlds(60); ++number) {
    const std::uint64_t of_seed = seed(4140000 + static_cast<std::uint64_t>(number));
    const SparseWork work{.seed = of_seed, .steps = 12};
    const bool is_bsp = number % 3 != 0;
    const server::SparseTableSpec spec{.name = "u",
                                       .width = work.width,
                                       .dtype = Dtype::f64,
                                       .synchrony = is_bsp ? "bsp" : kLoose[number / 3 % 4],
                                       .rule = "adagrad:rate=0.1",
                                       .admit_after = number % 5,
                                       .evict_after = 1 + number % 4};
    SparseChainWorld world(spec, 2 + number % 2, work);
    SeededNumbers numbers(of_seed);
    plan_troubles_of(world.chains, numbers, {.kills = 3, .moves = 1, .suspicions = number % 2});
    ASSERT_EQ(world.run(), "") << "seed " << number;
    for (const auto& [worker, trainer] : world.workers) {
      EXPECT_EQ(trainer->values(), world.workers.at(0)->values()) << "seed " << number;
      const auto stored = trainer->table.look([](const auto& one) { return one.stored(); });
      counted += stored.counted;
      evicted += stored.evicted;
    }
    if (!is_bsp) continue;
    SparseWorld alone(spec, 3, work, {});
    ASSERT_TRUE(alone.run());
    EXPECT_EQ(world.workers.at(0)->values(), alone.members[0]->values()) << "seed " << number;
  }
  EXPECT_GT(counted, is_brief() ? 10U : 100U);
  EXPECT_GT(evicted, is_brief() ? 10U : 100U);
}

TEST(SparseChains, AWorkerThatEndsHoldsUpNobodyWhateverServersEnd) {
  for (int number = 0; number < sparse_worlds(60); ++number) {
    const std::uint64_t of_seed = seed(3650000 + static_cast<std::uint64_t>(number));
    SparseWork work = counted_work(of_seed);
    work.leaves = number % 2 == 0;
    const char* const all[] = {"bsp", "asp", "ssp:staleness=1"};
    SparseChainWorld world(SparseChainWorld::counting(work, all[number % 3]), 2 + number % 2, work);
    for (auto& [worker, trainer] : world.workers) trainer->seen = nullptr;
    SeededNumbers numbers(of_seed);
    world.lose_worker(static_cast<int>(numbers.below(4)),
                      std::chrono::milliseconds(20 + numbers.below(250)));
    plan_troubles_of(world.chains, numbers, {.kills = 3, .moves = 1});
    ASSERT_EQ(world.run(), "") << all[number % 3] << ", seed " << number;
    if (work.leaves) {
      EXPECT_TRUE(world.all_servers_end()) << "seed " << number;
    }
  }
}

// A server that may have been taken out of its chain answers nobody.
TEST(SparseChains, AServerAsksBeforeEachAnswerWhetherItMay) {
  const SparseWork work = counted_work(seed(3660000), 4);
  SparseChainWorld world(SparseChainWorld::counting(work, "asp"), 2, work);
  bool may = false;
  for (const auto& [member, server] : world.chains.servers())
    server->table.ask_before_answers([&may](machine::Time) { return may; });
  world.chains.run(std::chrono::seconds(1));
  for (const auto& [worker, trainer] : world.workers)
    EXPECT_FALSE(trainer->table.look([](const auto& one) { return one.has_begun(); }));
  may = true;
  EXPECT_EQ(world.run(), "");
}

server::SparseShape shape_of_two_servers() {
  return server::shape_of({.name = "u", .width = 1, .replicas = 2},
                          server::TableMembers::of_servers(1, 2))
      .value();
}

server::SparsePacket said(const machine::Actions& actions, const server::SparseShape& shape) {
  return server::parse_sparse_packet(std::get<machine::Send>(actions.back()).message, shape)
      .value();
}

// The first server of a chain ended before the second had a state: nobody can bring it one.
TEST(SparseChains, AServerThatIsFirstWithoutAStateSaysThatTheTableIsLost) {
  const server::SparseShape shape = shape_of_two_servers();
  server::ShareMachine share(shape, 0, 2, {.generation = 2, .servers = {1, 2}}, false);
  share.configure({.generation = 3, .servers = {2}}, {});
  const server::SparsePacket failed =
      said(share.on_packet(0, {.kind = server::SparseKind::begin}, {}), shape);
  EXPECT_EQ(failed.kind, server::SparseKind::failed);
  EXPECT_EQ(failed.flags, server::SparsePacket::kIsLost);
  EXPECT_THAT(failed.text, ::testing::HasSubstr("its share 0 have ended"));
  EXPECT_EQ(said(share.on_packet(0, {.kind = server::SparseKind::leave}, {}), shape).kind,
            server::SparseKind::left);
}

// It began the table anew, and a worker was told by another server that its push is in it.
TEST(SparseChains, AServerThatKnowsLessThanAWorkerWasToldSaysThatTheTableIsLost) {
  const server::SparseShape shape = shape_of_two_servers();
  server::ShareMachine share(shape, 0, 2, {.generation = 3, .servers = {2}}, true);
  const auto answer_to = [&](std::uint64_t told) {
    return said(share.on_packet(0, {.kind = server::SparseKind::ask, .count = told}, {}), shape)
        .kind;
  };
  EXPECT_EQ(answer_to(0), server::SparseKind::missing);
  EXPECT_EQ(answer_to(1), server::SparseKind::failed);

  server::ShareMachine anew(shape, 0, 2, {.generation = 3, .servers = {2}}, true);
  const server::SparsePacket failed =
      said(anew.on_packet(0, {.kind = server::SparseKind::push, .number = 100}, {}), shape);
  EXPECT_EQ(failed.flags, server::SparsePacket::kIsLost) << "it was told of the 92nd at least";
}

// Each server of a chain is sent a list once, and then its hash: where nothing is lost, none asks.
TEST(SparseChains, EachServerHasItsOwnListsOfIds) {
  const SparseWork work{.seed = seed(3670000), .workers = 2, .steps = 30};
  SparseChainWorld world({.name = "u", .width = work.width, .rule = "adagrad:rate=0.1"}, 2, work,
                         {});
  ASSERT_EQ(world.run(), "");
  const auto traffic =
      world.workers.at(0)->table.look([](const auto& one) { return one.traffic(); });
  EXPECT_EQ(traffic.unknown, 0U);
  EXPECT_GT(traffic.hashes, traffic.lists / 3) << "every third step has the ids of the one before";
}

// Between servers travels the mean of each step once for each replica but the first, and nothing else
// that has rows.
TEST(SparseChains, ServersSendEachOtherTheMeanOfEachStepOnce) {
  for (const int replicas : {2, 3}) {
    const SparseWork work{.seed = seed(3680000), .workers = 3, .steps = 6};
    SparseChainWorld world({.name = "u", .width = work.width}, replicas, work, {});
    std::map<std::uint32_t, std::uint64_t> rows, steps;
    world.chains.meddle_with_all([&](SparseServer& one) {
      one.say = [&](const machine::Actions& actions, machine::Time) {
        for (const machine::Action& action : actions) {
          const auto* const send = std::get_if<machine::Send>(&action);
          if (send == nullptr ||
              send->message.kind != static_cast<std::uint32_t>(server::ChainKind::forward))
            continue;
          const auto packet =
              server::parse_chain_packet<server::ShareChange>(send->message, 3).value();
          for (const server::ShareChange& change : packet.entries) {
            steps[packet.range] += change.kind == server::ShareChange::Kind::step ? 1 : 0;
            for (const server::SparsePush& push : change.pushes)
              rows[packet.range] += push.rows.ids->size();
          }
        }
        return machine::Actions{};
      };
    });
    ASSERT_EQ(world.run(), "");
    for (std::uint32_t share = 0; share < 3; ++share) {
      std::uint64_t means = 0;
      for (std::int64_t step = 0; step < work.steps; ++step) {
        std::set<std::int64_t> ids;
        for (int worker = 0; worker < work.workers; ++worker)
          for (const std::int64_t id : work.ids(worker, step))
            if (world.shape.share_of(server::hash_of_id(static_cast<std::uint64_t>(id))) == share)
              ids.insert(id);
        means += ids.size();
      }
      // Servers say again after 50 ms what has not been acknowledged, which takes 1 ms here.
      const auto copies = static_cast<std::uint64_t>(replicas - 1);
      EXPECT_EQ(steps[share], copies * static_cast<std::uint64_t>(work.steps));
      EXPECT_EQ(rows[share], copies * means) << "share " << share;
    }
  }
}

}  // namespace
}  // namespace paceline::test
