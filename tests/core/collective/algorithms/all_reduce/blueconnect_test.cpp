#include <gtest/gtest.h>

#include "tests/core/collective/grids.h"

namespace paceline::collective::all_reduce_blueconnect {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "blueconnect");
}

TEST(BlueconnectAllReduce, IsProvenOnEveryFactorisation) {
  for (int ranks = 1; ranks <= (test::kSanitized ? 12 : 64); ++ranks) {
    for (const auto& dimensions : factorisations(ranks)) {
      if (dimensions.size() > 2 && ranks > 24) continue;
      EXPECT_EQ(fault_of(algorithm(), on_grid_of(dimensions)), "");
    }
  }
}

TEST(BlueconnectAllReduce, OfOneDimensionIsTheRingWithItsChunksNumberedFromTheNext) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const auto rings = programs_of(built_in(Operation::all_reduce, "ring"), ranks);
    const auto own = programs_of(algorithm(), on_grid_of({ranks}));
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      ASSERT_EQ(own[rank].rounds.size(), rings[rank].rounds.size());
      for (std::size_t r = 0; r < own[rank].rounds.size(); ++r) {
        const Round &round = own[rank].rounds[r], &ring = rings[rank].rounds[r];
        ASSERT_EQ(round.size(), 2U);
        for (std::size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(round[i].kind, ring[i].kind);
          EXPECT_EQ(round[i].peer, ring[i].peer);
          EXPECT_EQ(round[i].completes, ring[i].completes);
        }
        EXPECT_EQ((round[0].source.chunk + 1) % ranks, ring[0].source.chunk);
        EXPECT_EQ((round[1].target.chunk + 1) % ranks, ring[1].target.chunk);
      }
    }
  }
}

TEST(BlueconnectAllReduce, SendsTheLeastThatCanDoInTheRoundsOfItsRings) {
  for (const auto& dimensions : {std::vector{2, 3, 5}, {4, 2, 3}, {4, 4, 4}, {8, 8}, {7, 3, 2}}) {
    const int ranks = ranks_of(dimensions);
    int steps = 0;
    for (const int size : dimensions) steps += size - 1;
    const Proof proof = proof_of(algorithm(), on_grid_of(dimensions));
    EXPECT_EQ(proof.rounds, 2 * steps);
    EXPECT_EQ(proof.sent_chunks,
              std::vector<long>(static_cast<std::size_t>(ranks), 2 * (ranks - 1)));
  }
}

TEST(BlueconnectAllReduce, CostsWhatItsRingsDo) {
  constexpr topology::Prices kPrices{.alpha = 3, .beta = 1, .gamma = 0.5};
  for (const int ranks : {1, 2, 6, 12, 16, 30, 36}) {
    for (const auto& dimensions : factorisations(ranks)) {
      const auto bytes = static_cast<std::size_t>(2 * ranks);
      EXPECT_NEAR(price_on_grid(algorithm(), on_grid_of(dimensions), bytes, kPrices),
                  seconds_on_grid(dimensions, 2 * ranks, kPrices), 1e-9);
    }
  }
}

TEST(BlueconnectAllReduce, LittleIsLeftForTheLastDimension) {
  constexpr int kAcross = 2, kRanks = 8;
  const auto programs = programs_of(algorithm(), on_grid_of({kRanks / kAcross, kAcross}));
  for (int rank = 0; rank < kRanks; ++rank) {
    int leaving = 0;
    for (const Round& round : programs[static_cast<std::size_t>(rank)].rounds) {
      for (const Step& step : round)
        leaving += step.kind == Step::Kind::send && step.peer / 4 != rank / 4;
    }
    EXPECT_EQ(leaving, 2 * (kAcross - 1)) << "of 14 chunks";
  }
}

TEST(BlueconnectAllReduce, TakesItsDimensionsFromTheHostsElseFromThePrimeFactors) {
  EXPECT_EQ(programs_of(algorithm(), on_hosts_of(4, 12)),
            programs_of(algorithm(), on_grid_of({4, 3})));
  EXPECT_EQ(programs_of(algorithm(), 12), programs_of(algorithm(), on_grid_of({2, 2, 3})));
  const Shape uneven = on_hosts_of(5, 12), across{.ranks = 4, .groups = {{0, 2}, {1, 3}}};
  EXPECT_EQ(programs_of(algorithm(), uneven), programs_of(algorithm(), 12));
  EXPECT_EQ(programs_of(algorithm(), across), programs_of(algorithm(), 4));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_blueconnect
