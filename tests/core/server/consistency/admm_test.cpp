// Asynchronous consensus ADMM on servers: the bits of ADMM with a barrier of all workers, its fixed
// point with fewer, rounds that are the same on all ranges, and waits that end.
// Also covers paceline/core/server/consistency/admm.cpp,
// paceline/core/server/machine/consensus_rounds.cpp and
// paceline/core/server/machine/range_rounds.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/server/machine/chain_world.h"
#include "tests/core/server/machine/consensus_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Split at the largest power of two below the count.
template <typename T>
T tree_of(std::span<const T> terms) {
  if (terms.size() == 1) return terms[0];
  std::size_t half = 1;
  while (2 * half < terms.size()) half *= 2;
  return tree_of(terms.first(half)) + tree_of(terms.subspan(half));
}

// z after each round of ADMM, in one loop; the first one is that of the beginning.
template <typename T>
std::vector<std::vector<double>> serial_admm(std::uint64_t of_seed, int workers,
                                             std::int64_t rounds) {
  auto solvers = consensus_solvers(of_seed, workers, 1);
  std::vector<std::vector<double>> path = {std::vector<double>(kConsensusElements, 0.25)};
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::vector<std::vector<T>> contributions(kConsensusElements);
    for (auto& [worker, solver] : solvers) {
      const std::vector<double> own = solver.go_on(path.back());
      for (std::size_t i = 0; i < own.size(); ++i)
        contributions[i].push_back(static_cast<T>(own[i]));
    }
    std::vector<double> z;
    for (const auto& of_workers : contributions)
      z.push_back(tree_of(std::span<const T>(of_workers)) *
                  static_cast<T>(T(1) / static_cast<T>(workers)));
    path.push_back(std::move(z));
  }
  return path;
}

template <typename T>
void expect_bits_of_admm(const ConsensusWorld& world, std::uint64_t of_seed, int workers,
                         std::string_view which) {
  const auto path = serial_admm<T>(of_seed, workers, world.training.steps);
  for (const TableRead& read : world.training.reads)
    ASSERT_EQ(read.values, path[static_cast<std::size_t>(read.clock)])
        << which << ", worker " << read.worker << " at " << read.clock << ", seed " << of_seed;
  EXPECT_EQ(world.table.held(), path.back()) << which;
}

TEST(AdmmOnServers, ABarrierOfAllWorkersHasTheBitsOfAdmm) {
  for (int number = 0; number < worlds_of(40); ++number) {
    const std::uint64_t of_seed = seed(3120000 + static_cast<std::uint64_t>(number));
    const int workers = 1 + number % 5;
    for (const std::string& synchrony :
         {fmt::format("admm:barrier={}", workers), std::string("admm:barrier=99,delay=1000"),
          std::string("admm:barrier=1,delay=1")}) {
      if (number % 2 == 0) {
        ConsensusWorld world(synchrony, Dtype::f64, workers, 6, of_seed);
        ASSERT_TRUE(world.table.run()) << synchrony << ", seed " << number;
        expect_bits_of_admm<double>(world, of_seed, workers, synchrony);
      } else {
        ConsensusWorld world(synchrony, Dtype::f32, workers, 6, of_seed);
        ASSERT_TRUE(world.table.run()) << synchrony << ", seed " << number;
        expect_bits_of_admm<float>(world, of_seed, workers, synchrony);
      }
    }
  }
}

// A rest in the middle brings the z that all have anyway.
TEST(AdmmOnServers, ABarrierOfAllHasTheSameBitsWhereWorkersRestAndServersEnd) {
  for (int number = 0; number < worlds_of(20); ++number) {
    const std::uint64_t of_seed = seed(3130000 + static_cast<std::uint64_t>(number));
    const int workers = 1 + number % 4, replicas = 1 + number % 3;
    ConsensusWorld world(fmt::format("admm:barrier={}", workers), Dtype::f64, workers, 6, of_seed,
                         kBadWeather, replicas);
    if (number % 2 == 0) world.training.rests_at = 3;
    SeededNumbers numbers(of_seed);
    if (replicas > 1)
      plan_troubles(world.table, numbers, {.kills = 3, .moves = 1, .suspicions = number % 2});
    ASSERT_TRUE(world.table.run(20s)) << "no progress; seed " << number;
    if (replicas > 1) {
      EXPECT_EQ(complaint_of_chains(world.table), "") << "seed " << number;
    }
    expect_bits_of_admm<double>(world, of_seed, workers, "with rests and kills");
  }
}

double distance(std::span<const double> one, std::span<const double> other) {
  double square = 0, norm = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    square += (one[i] - other[i]) * (one[i] - other[i]);
    norm += other[i] * other[i];
  }
  return std::sqrt(square / norm);
}

TEST(AdmmOnServers, FewerWorkersAtATimeComeToTheSameOptimum) {
  for (int number = 0; number < (is_nightly() ? 20 : 1); ++number) {
    const std::uint64_t of_seed = seed(3140000 + static_cast<std::uint64_t>(number));
    LocalQuadratic whole = LocalQuadratic::drawn(of_seed, 0, kConsensusElements);
    for (int worker = 1; worker < 4; ++worker)
      whole.add(LocalQuadratic::drawn(of_seed, worker, kConsensusElements));
    for (const char* synchrony :
         {"admm:barrier=2,delay=5", "admm:barrier=1,delay=3", "admm:barrier=4"}) {
      ConsensusWorld world(synchrony, Dtype::f64, 4, 300, of_seed);
      world.training.keeps_reads = false;
      ASSERT_TRUE(world.table.run(3600s)) << synchrony << ", seed " << number;
      EXPECT_LT(distance(world.table.held(), whole.least()), 1e-7)
          << synchrony << ", seed " << number;
    }
  }
}

// At the same time, with a worker that is twelve times as slow as the others.
TEST(AdmmOnServers, ASlowWorkerHoldsTheOthersUpLessThanABarrierOfAll) {
  const auto error_after = [](const char* synchrony, std::uint64_t of_seed) {
    ConsensusWorld world(synchrony, Dtype::f64, 4, 100000, of_seed, {});
    world.training.keeps_reads = false;
    world.training.computes = [](int worker, std::int64_t) {
      return worker == 0 ? machine::Time(120ms) : machine::Time(10ms);
    };
    world.table.run_to(3s);
    LocalQuadratic whole = LocalQuadratic::drawn(of_seed, 0, kConsensusElements);
    for (int worker = 1; worker < 4; ++worker)
      whole.add(LocalQuadratic::drawn(of_seed, worker, kConsensusElements));
    return distance(world.table.held(), whole.least());
  };
  for (std::uint64_t number = 0; number < 5; ++number) {
    const std::uint64_t of_seed = seed(3150000 + number);
    EXPECT_GT(error_after("admm:barrier=4", of_seed),
              2 * error_after("admm:barrier=2,delay=5", of_seed))
        << number;
  }
}

// A network that loses nothing sends nothing again, which could end a wait by chance.
machine::NetworkFaults weather_of(int number, int replicas) {
  if (replicas > 1 || number % 4 > 1) return kBadWeather;
  return {.least_delay = 1ms, .most_delay = 10ms, .overtaking = true};
}

// All elements of a contribution are equal, so those of each mean are, if all ranges have made it of
// the same contributions.
struct LevelWorld : ConsensusWorld {
  using ConsensusWorld::ConsensusWorld;
  void begin() {
    training.update = [](int worker, std::int64_t clock, std::span<const double> z) {
      return std::vector<double>(z.size(), std::sin(1 + 17 * worker + static_cast<double>(clock)));
    };
  }
};

TEST(AdmmOnServers, AllRangesMakeTheSameRoundsAndNobodyStaysAwayForLongerThanTheDelay) {
  std::size_t apart = 0;
  for (int number = 0; number < worlds_of(40); ++number) {
    SeededNumbers numbers(seed(3160000 + static_cast<std::uint64_t>(number)));
    const int workers = 1 + number % 5, replicas = 1 + number % 3;
    const auto delay = 1 + numbers.below(5);
    LevelWorld world(fmt::format("admm:barrier={},delay={}", 1 + numbers.below(4), delay),
                     Dtype::f64, workers, 8, numbers.next(), weather_of(number, replicas),
                     replicas);
    world.begin();
    if (number % 4 == 0) world.training.rests_at = 4;
    if (number % 4 == 1) world.training.rests_at_once = true;
    if (replicas > 1)
      plan_troubles(world.table, numbers, {.kills = 3, .moves = 1, .suspicions = number % 2});
    ASSERT_TRUE(world.table.run(20s)) << "no progress; seed " << number;
    if (replicas > 1) {
      EXPECT_EQ(complaint_of_chains(world.table), "") << "seed " << number;
    }
    for (const TableRead& read : world.training.reads) {
      ASSERT_THAT(read.values, Each(read.values[0]))
          << "worker " << read.worker << " at " << read.clock << ", seed " << number;
      apart += read.values == world.training.reads.back().values ? 0 : 1;
    }
    EXPECT_LE(world.table.range(0).rounds_to_tell().size(), 2 * delay);
    EXPECT_TRUE(world.table.range(1).rounds_to_tell().empty()) << "the first range decides";
    const auto staleness = world.staleness();
    EXPECT_LT(staleness.rbegin()->first, delay) << "seed " << number;
  }
  EXPECT_GT(apart, is_brief() ? 10U : 100U) << "means follow each other";
}

TEST(AdmmOnServers, NobodyWaitsForWorkersThatLeaveOrEndOrForAChange) {
  for (int number = 0; number < worlds_of(50); ++number) {
    SeededNumbers numbers(seed(3170000 + static_cast<std::uint64_t>(number)));
    const int replicas = 1 + number % 2;
    ConsensusWorld world(
        fmt::format("admm:barrier={},delay={}", 1 + numbers.below(4), 1 + numbers.below(4)),
        Dtype::f64, 4, 8, numbers.next(), weather_of(number, replicas), replicas);
    world.training.update = [](int worker, std::int64_t clock, std::span<const double> z) {
      return std::vector<double>(z.size(),
                                 static_cast<double>(worker) + 0.125 * static_cast<double>(clock));
    };
    VirtualTable& table = world.table;
    const auto has_begun = [&] {
      return table.workers.at(0)->table.look([](const auto& one) { return one.is_assigned(); });
    };
    for (machine::Time at = 0ms; at == 0ms || !has_begun(); at += 1ms) table.run_to(at);
    for (const int victim : {0, 2}) {
      table.run_to(table.network.now() + machine::Time(numbers.below(150'000'000)));
      table.gone.insert(victim);
      if (numbers.below(2) == 0) {
        if (table.chains) table.chains->worker_lost(victim);
        table.network.kill(victim, table.network.now());
      } else {
        table.network.tell(victim, -1, {.kind = TableTrainer::kLeave});
      }
    }
    table.add_worker(100, true);
    ASSERT_TRUE(table.run(20s)) << "no progress; seed " << number;
    // The mean is made of what those who are still there have contributed last, on all ranges.
    for (const double one : table.held()) EXPECT_NEAR(one, table.held()[0], 1e-12) << number;
    const auto& reads = world.training.reads;
    for (std::size_t i = reads.size() - 3; i < reads.size(); ++i)
      EXPECT_EQ(reads[i].values, table.held()) << "all read the same at rest; seed " << number;
  }
}

TEST(AdmmOnServers, SettingsThatMakeNoSenseAreRefused) {
  const auto refusal = [](const char* synchrony, const char* rule) {
    const auto shape = server::shape_of(
        {.name = "z", .elements = 4, .synchrony = synchrony, .rule = rule}, {{0, 1}, {2}});
    return shape ? std::string() : shape.error().what;
  };
  EXPECT_EQ(refusal("admm", "add"), "");
  EXPECT_EQ(refusal("admm:barrier=9,delay=1", "add"), "") << "more than there are means all";
  EXPECT_THAT(refusal("admm", "sgd"), HasSubstr("the rule add goes with"));
  EXPECT_THAT(refusal("admm:barrier=0", "add"),
              HasSubstr("barrier of admm is a whole number from 1"));
  EXPECT_THAT(refusal("admm:delay=0", "add"), HasSubstr("delay of admm is a whole number from 1"));
}

}  // namespace
}  // namespace paceline::test
