// Ranges that chains of servers keep: servers are killed at random, before and inside any event,
// suspected, replaced and moved, while workers come and go.
// Also covers paceline/core/server/machine/range_chain.cpp and
// paceline/core/server/machine/range_state.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "tests/core/server/machine/chain_world.h"
#include "tests/core/server/machine/partial_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

std::optional<std::int64_t> staleness_of(int number) {
  const std::optional<std::int64_t> all[] = {0, 1, 2, 3, std::nullopt};
  return all[number % 5];
}

TEST(Chains, NoAnsweredPushIsLostOrCountsTwiceWhateverEndsAtRandom) {
  std::size_t compared = 0, most_logged = 0;
  int kills = 0, suspicions = 0;
  for (int number = 0; number < worlds_of(600); ++number) {
    const int replicas = 2 + number % 2;
    ChainSspWorld world(staleness_of(number), seed(3450000 + static_cast<std::uint64_t>(number)), 4,
                        replicas, {.kills = 3, .moves = 3, .suspicions = number % 2});
    EXPECT_EQ(world.run(number % 3), "") << "seed " << number;
    const VirtualChains& chains = *world.table.chains;
    compared += chains.compared;
    kills += chains.kills;
    suspicions += chains.suspicions;
    most_logged = std::max(most_logged, chains.most_logged);
  }
  EXPECT_GT(compared, 1000U) << "states of servers were compared";
  EXPECT_GT(kills, is_brief() ? 5 : 500);
  EXPECT_GT(suspicions, is_brief() ? 1 : 100);
  // Five workers with a window of eight pushes, and their coming and going.
  EXPECT_LE(most_logged, 5U * (server::kWindow + 2));
}

// The server is killed before its nth event, or inside it when it has carried out some actions.
TEST(Chains, OutliveTheEndOfAServerAtAnyEventAndInsideIt) {
  int ends = 0;
  for (int number = 0; number < worlds_of(400); ++number) {
    const std::uint64_t of_seed = seed(3460000 + static_cast<std::uint64_t>(number));
    SeededNumbers numbers(of_seed);
    const int replicas = 2 + number % 2;
    ChainSspWorld world(number % 2 == 0 ? std::optional<std::int64_t>(2) : std::nullopt, of_seed, 3,
                        replicas, {}, kBadWeather, 5);
    const int victim = SspWorld::kWorkers + static_cast<int>(numbers.below(3));
    world.table.chains->server(victim).end = {
        .event = 1 + numbers.below(120),
        .actions = numbers.below(4) == 0 ? std::nullopt : std::optional(numbers.below(3))};
    EXPECT_EQ(world.run(), "") << "seed " << number;
    ends += world.table.chains->kills;
  }
  EXPECT_GT(ends, worlds_of(400) / 2);
}

// Adam's slots and its number of steps are part of what a new server gets.
TEST(Chains, BspHasTheBitsOfTheRunWithoutFaults) {
  for (int number = 0; number < worlds_of(100); ++number) {
    const std::uint64_t of_seed = seed(3470000 + static_cast<std::uint64_t>(number));
    const int workers = 1 + number % 4, replicas = 2 + number % 2;
    const Dtype dtype = number % 2 == 0 ? Dtype::f64 : Dtype::f32;
    QuadraticWorld calm("bsp", "adam:rate=0.05", dtype, workers, 3, of_seed, {}, 8);
    ASSERT_TRUE(calm.table.run());
    QuadraticWorld world("bsp", "adam:rate=0.05", dtype, workers, 3, of_seed, kBadWeather, 8,
                         replicas);
    SeededNumbers numbers(of_seed);
    plan_troubles(world.table, numbers, {.kills = 3, .moves = 2, .suspicions = number % 2});
    ASSERT_TRUE(world.table.run(20s)) << "seed " << number;
    EXPECT_EQ(complaint_of_chains(world.table), "") << "seed " << number;
    EXPECT_EQ(world.table.held(), calm.table.held()) << "seed " << number;
  }
}

// Workers rest while servers end, and go on: all have read the same.
TEST(Chains, WorkersThatAreQuietReadTheSameWhateverEnds) {
  for (int number = 0; number < worlds_of(150); ++number) {
    const std::uint64_t of_seed = seed(3480000 + static_cast<std::uint64_t>(number));
    const char* const all[] = {"asp", "ssp:staleness=1", "bsp", "staleness_aware:softsync=1",
                               "elastic:alpha=0.3"};
    const char* const synchrony = all[number % 5];
    const bool adds = std::string_view(synchrony).starts_with("elastic");
    QuadraticWorld world(synchrony, adds ? "add" : "adagrad:rate=0.1", Dtype::f64, 3, 3, of_seed,
                         kBadWeather, 5, 2 + number % 2);
    world.training.quiesces = true;
    SeededNumbers numbers(of_seed);
    plan_troubles(world.table, numbers, {.kills = 3, .moves = 1});
    ASSERT_TRUE(world.table.run(20s)) << "seed " << number;
    EXPECT_EQ(complaint_of_chains(world.table), "") << "seed " << number;
    const auto& reads = world.training.reads;
    ASSERT_GE(reads.size(), 3U);
    for (std::size_t i = reads.size() - 3; i < reads.size(); ++i)
      EXPECT_EQ(reads[i].values, world.table.held()) << synchrony << " seed " << number;
  }
}

// Workers rest behind their last push, which the first server of a chain may have taken alone.
TEST(Chains, APushThatARestFollowsIsInTheValuesWhateverEnds) {
  for (int number = 0; number < worlds_of(400); ++number) {
    const std::uint64_t of_seed = seed(3590000 + static_cast<std::uint64_t>(number));
    const auto final_values = [&](const machine::NetworkFaults& weather, int replicas) {
      QuadraticWorld world("bsp", "sgd:rate=0.1", Dtype::f64, 3, 3, of_seed, weather, 4, replicas);
      world.training.rests_at_once = true;
      SeededNumbers numbers(of_seed);
      if (replicas > 1) plan_troubles(world.table, numbers, {.kills = 4});
      EXPECT_TRUE(world.table.run(20s)) << "seed " << number;
      if (replicas > 1) {
        EXPECT_EQ(complaint_of_chains(world.table), "") << "seed " << number;
      }
      return world.training.reads.back().values;
    };
    EXPECT_EQ(final_values(kBadWeather, 2 + number % 2), final_values({}, 1)) << "seed " << number;
  }
}

// Messages come in the order in which they were sent, as on links.
TEST(Chains, PushesOfAWorkerThatLeavesBehindThemAreThereWhateverEnds) {
  constexpr std::int64_t kSteps = 6;
  const machine::NetworkFaults in_order = {.least_delay = 1ms, .most_delay = 10ms};
  for (int number = 0; number < worlds_of(200); ++number) {
    ChainSspWorld world(std::nullopt, seed(3600000 + static_cast<std::uint64_t>(number)), 3,
                        2 + number % 2, {.kills = 4}, in_order, kSteps);
    world.training.leaves_at_once = true;
    ASSERT_TRUE(world.table.run(20s)) << "seed " << number;
    EXPECT_EQ(complaint_of_chains(world.table), "") << "seed " << number;
    world.table.run_to(world.table.network.now() + 1s);
    const std::vector<double> held = world.table.held();
    for (std::size_t range = 0; range < world.marks.ranges; ++range)
      for (int worker = 0; worker < SspWorld::kWorkers; ++worker)
        for (std::int64_t t = 0; t < kSteps; ++t)
          EXPECT_EQ(held[world.marks.place(range, worker, t)], 1) << "seed " << number;
  }
}

// Servers give up a table that nobody needs, some of them earlier than others. Whichever are killed
// then, every worker hears that it has left, and no server keeps the table.
TEST(Chains, EveryWorkerHearsThatItHasLeftWhateverEndsMeanwhile) {
  int kills = 0;
  for (int number = 0; number < worlds_of(400); ++number) {
    const std::uint64_t of_seed = seed(3580000 + static_cast<std::uint64_t>(number));
    QuadraticWorld world("asp", "sgd:rate=0.1", Dtype::f64, 3, 4, of_seed, kBadWeather, 2,
                         2 + number % 2);
    ASSERT_TRUE(world.table.run()) << "seed " << number;
    VirtualChains& chains = *world.table.chains;
    chains.end_table();
    SeededNumbers numbers(of_seed);
    const machine::Time begin = world.table.network.now();
    const auto later = [&](double most) {
      return begin + machine::Time(static_cast<machine::Time::rep>(most * numbers.unit() * 1e6));
    };
    for (int worker = 0; worker < 3; ++worker)
      chains.at(later(30), [&world, worker] {
        world.table.network.tell(worker, -1, {.kind = TableTrainer::kLeave});
      });
    for (int i = 0; i < 4; ++i)
      chains.at(later(250), [&chains, chosen = numbers.next()] {
        const auto all = chains.expendable();
        if (!all.empty()) chains.kill(all[chosen % all.size()]);
      });
    world.table.run_to(begin + 40ms);
    ASSERT_TRUE(world.table.run(begin + 20s)) << "seed " << number;
    world.table.run_to(world.table.network.now() + 1s);
    EXPECT_EQ(complaint_of_chains(world.table), "") << "seed " << number;
    for (const auto& [member, server] : chains.servers())
      if (member < kLateServers && chains.is_alive(member)) {
        EXPECT_TRUE(server->has_ended_table) << "server " << member << " seed " << number;
      }
    kills += chains.kills;
  }
  EXPECT_GT(kills, worlds_of(400));
}

// Steps that close without some workers: each push counts at most once, and the shares of a step
// add up to one.
TEST(Chains, StepsThatCloseEarlyCountEachPushAtMostOnce) {
  for (int number = 0; number < worlds_of(150); ++number) {
    const char* const all[] = {
        "timeout:milliseconds=20,late=drop", "timeout:milliseconds=20,late=apply_late",
        "timeout:milliseconds=20,late=fold_into_next", "backup_workers:spare=1"};
    const std::uint64_t of_seed = seed(3490000 + static_cast<std::uint64_t>(number));
    PartialWorld world(all[number % 4], 3, of_seed, drawn_times(of_seed), 2);
    SeededNumbers numbers(of_seed);
    plan_troubles(world.table, numbers, {.kills = 2, .moves = 1});
    ASSERT_TRUE(world.run()) << all[number % 4] << " seed " << number;
    EXPECT_EQ(complaint_of_chains(world.table), "") << all[number % 4] << " seed " << number;
    EXPECT_TRUE(world.reads_have_one_version()) << all[number % 4] << " seed " << number;
    for (std::size_t range = 0; range < world.marks.ranges; ++range)
      for (std::int64_t t = 0; t < world.training.steps; ++t)
        for (const double share : world.shares(range, t)) EXPECT_LE(share, 1.0);
  }
}

// Between servers travel (R - 1) entries for each closed step and range, and nothing else that has
// elements: the first values once, then the mean of each step.
TEST(Chains, ServersSendEachOtherTheMeanOfEachStepOnce) {
  constexpr int kWorkers = 3;
  constexpr std::int64_t kSteps = 6;
  for (const int replicas : {2, 3}) {
    machine::NetworkFaults calm;
    calm.loss = 1e-300;  // so that the members say again what may be lost, which is nothing
    QuadraticWorld world("bsp", "sgd:rate=0.1", Dtype::f64, kWorkers, 3, seed(3540000), calm,
                         kSteps, replicas);
    std::map<std::uint32_t, std::uint64_t> bytes;  // by range
    world.table.chains->meddle_with_all([&](ChainServer& one) {
      one.say = [&](const machine::Actions& actions, machine::Time) {
        for (const machine::Action& action : actions) {
          const auto* const send = std::get_if<machine::Send>(&action);
          if (send == nullptr ||
              send->message.kind != static_cast<std::uint32_t>(server::ChainKind::forward))
            continue;
          auto packet = server::parse_chain_packet(send->message, 100).value();
          bytes[packet.range] += send->message.payload.size();
        }
        return machine::Actions{};
      };
    });
    ASSERT_TRUE(world.table.run());
    const server::TableShape& shape = world.table.shape;
    for (std::uint32_t range = 0; range < shape.ranges.size(); ++range) {
      const std::uint64_t elements = shape.ranges[range].elements * sizeof(double);
      const std::uint64_t first = server::kChainHeader + server::kEntryHeader + elements;
      const std::uint64_t step = server::kChainHeader + server::kEntryHeader +
                                 kWorkers * server::kPushBytes +
                                 shape.rule.entry.settings.size() * sizeof(double) + elements;
      EXPECT_EQ(bytes[range], static_cast<std::uint64_t>(replicas - 1) * (first + kSteps * step))
          << "range " << range;
    }
  }
}

// The first of three servers has heard nothing of the others.
TEST(Chains, AWorkerThatAsksHearsOfTheServersThatHaveNotKeptItsPush) {
  const server::TableShape shape =
      server::shape_of({.name = "w", .elements = 1, .synchrony = "asp", .replicas = 3},
                       server::TableMembers::of_servers(1, 3))
          .value();
  server::RangeMachine range(shape, 0, 1, 1, shape.chains()[0]);
  const std::vector<std::byte> one(sizeof(float));
  const auto tell = [&](const server::Packet& packet) {
    std::vector<int> missing;
    for (const machine::Action& action : range.on_packet(0, packet, {}))
      if (const auto* const send = std::get_if<machine::Send>(&action); send && send->to == 0)
        for (const int member : server::parse_packet(send->message, {}).value().members)
          missing.push_back(member);
    return missing;
  };
  tell({.kind = server::PacketKind::assign,
        .sequence = shape.fingerprint(),
        .count = 1,
        .elements = one});
  tell({.kind = server::PacketKind::push,
        .sequence = 1,
        .count = 1,
        .settings = server::values_of(shape.rule),
        .elements = one});
  EXPECT_EQ(tell({.kind = server::PacketKind::ask, .clock = server::kAnyClock}),
            (std::vector{2, 3}));
}

// The first server of a chain ended before the second had a state: nobody can bring it one.
TEST(Chains, AServerThatIsFirstWithoutAStateSaysThatTheTableIsLost) {
  const server::TableShape shape =
      server::shape_of({.name = "w", .elements = 1, .synchrony = "asp", .replicas = 2},
                       server::TableMembers::of_servers(1, 2))
          .value();
  const auto said = [](const machine::Actions& actions) {
    return server::parse_packet(std::get<machine::Send>(actions.back()).message, {}).value();
  };
  server::RangeMachine range(shape, 0, 1, 2, {.generation = 2, .servers = {1, 2}}, false);
  range.configure({.generation = 3, .servers = {2}}, {});
  const server::Packet failed = said(range.on_packet(0, {.kind = server::PacketKind::assign}, {}));
  EXPECT_EQ(failed.kind, server::PacketKind::failed);
  EXPECT_EQ(failed.flags, server::Packet::kIsLost);
  EXPECT_THAT(failed.text, ::testing::HasSubstr("its range 0 have ended"));
  EXPECT_EQ(said(range.on_packet(0, {.kind = server::PacketKind::leave}, {})).kind,
            server::PacketKind::left);
}

// It began the table anew, and a worker was told by another server that its pushes are in it.
TEST(Chains, AServerThatKnowsLessThanAWorkerWasToldSaysThatTheTableIsLost) {
  const server::TableShape shape =
      server::shape_of({.name = "w", .elements = 1, .synchrony = "asp", .replicas = 2},
                       server::TableMembers::of_servers(1, 2))
          .value();
  server::RangeMachine range(shape, 0, 1, 2, {.generation = 3, .servers = {2}}, true);
  const auto answer_to = [&](std::uint64_t told) {
    const auto actions = range.on_packet(0, {.kind = server::PacketKind::ask, .count = told}, {});
    return server::parse_packet(std::get<machine::Send>(actions.back()).message, {}).value().kind;
  };
  EXPECT_EQ(answer_to(0), server::PacketKind::missing);
  EXPECT_EQ(answer_to(1), server::PacketKind::failed) << "that there are values";

  server::RangeMachine anew(shape, 0, 1, 2, {.generation = 3, .servers = {2}}, true);
  const auto actions = anew.on_packet(0, {.kind = server::PacketKind::push, .sequence = 1}, {});
  EXPECT_EQ(server::parse_packet(std::get<machine::Send>(actions.back()).message, {}).value().flags,
            server::Packet::kIsLost)
      << "no worker pushes before it was told that there are values";
}

// Workers push without a pause: the newcomer never has all that the first server has by then.
TEST(Chains, AServerThatJoinsHasCaughtUpThoughPushesGoOn) {
  const server::TableShape shape =
      server::shape_of({.name = "w", .elements = 1, .synchrony = "asp", .replicas = 2},
                       server::TableMembers::of_servers(1, 2))
          .value();
  server::RangeChain first(shape, 0, 1, {.generation = 2, .servers = {1}, .joiner = 2}, true);
  int newest = 50;
  const auto change = [&] {
    first.enter({.kind = server::EntryKind::join, .member = newest++});
    first.flow();
  };
  const auto has = [&](std::uint64_t entries, bool state) {
    first
        .on_packet(2, {.kind = server::ChainKind::acknowledge,
                       .generation = 2,
                       .index = entries,
                       .has_state = state})
        .value();
    first.flow();
    return first.joiner_has_caught_up();
  };
  change();
  EXPECT_FALSE(has(0, false)) << "it is sent the state of one entry";
  change();
  EXPECT_FALSE(has(1, true)) << "the second one came meanwhile";
  change();
  EXPECT_TRUE(has(2, true)) << "it has what there was when it took the state";
}

// A server that may have been taken out of its chain answers nobody.
TEST(Chains, AServerAsksBeforeEachAnswerWhetherItMay) {
  QuadraticWorld world("bsp", "sgd:rate=0.1", Dtype::f64, 2, 3, seed(3550000), kBadWeather, 4, 2);
  machine::Time until = 100ms;
  for (const auto& [member, server] : world.table.chains->servers())
    server->table.ask_before_answers([&until](machine::Time now) { return now < until; });
  EXPECT_FALSE(world.table.run(2s)) << "nobody is answered after 100 ms";
  const auto reads = world.training.reads.size();
  EXPECT_LT(reads, 2U * 5U);
  until = machine::Time::max();
  EXPECT_TRUE(world.table.run()) << "and all when they may again";
}

}  // namespace
}  // namespace paceline::test
