#include "paceline/core/collective/proof/mixing_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/collective/mixing/edge_list.h"

namespace paceline::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MixingProof, HoldsForEveryGraphAndAllNumbersOfRanksUpTo64) {
  for (const MixingGraph& graph : mixing_graphs()) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      const auto proof = verify(graph, ranks);
      if (const auto fits = graph.check(ranks); !fits) {
        EXPECT_EQ(proof.error().what, fits.error().what);
        continue;
      }
      ASSERT_TRUE(proof) << proof.error().what;
      EXPECT_EQ(proof.value().period, graph.rounds(ranks));
      EXPECT_EQ(proof.value().rate, mixing_rate(graph, ranks));
      EXPECT_LT(proof.value().rate, 1);
    }
  }
}

TEST(MixingProof, CountsMessagesAndVectorsOfAPeriod) {
  const auto counted = [](std::string_view name, int ranks) {
    const MixingProof proof = verify(parse_mixing_graph(name).value(), ranks).value();
    return std::vector<long>{proof.period, proof.messages, proof.sent};
  };
  EXPECT_EQ(counted("complete", 8), (std::vector<long>{1, 56, 7}));
  EXPECT_EQ(counted("ring", 8), (std::vector<long>{1, 16, 2}));
  EXPECT_EQ(counted("torus", 9), (std::vector<long>{1, 36, 4}));
  EXPECT_EQ(counted("exponential", 8), (std::vector<long>{1, 24, 3}));
  EXPECT_EQ(counted("one_peer", 8), (std::vector<long>{3, 24, 3}));
  const auto star = verify(metropolis_graph("star", {{0, 1}, {0, 2}, {0, 3}}), 4).value();
  EXPECT_EQ(star.messages, 6);
  EXPECT_EQ(star.sent, 3);
}

using Terms = std::vector<MixingTerm>;

// A ring of halves to the left: right, before a test breaks it.
MixingGraph broken(std::function<void(int round, int rank, Terms&)> fault) {
  return {.name = "mine", .is_symmetric = false, .terms = [fault](int ranks, int round, int rank) {
            Terms terms = {{(rank + ranks - 1) % ranks, 0.5}};
            fault(round, rank, terms);
            return terms;
          }};
}

std::string objection(const MixingGraph& graph, int ranks = 4) {
  const auto proof = verify(graph, ranks);
  return proof ? "none" : proof.error().what;
}

TEST(MixingProof, NamesGraphRanksRoundAndFault) {
  EXPECT_EQ(objection(broken([](int, int, Terms&) {})), "none");
  EXPECT_THAT(objection(broken([](int, int rank, Terms& terms) {
                if (rank == 2) terms[0].weight = 0.25;
              })),
              AllOf(HasSubstr("neighbours mine, 4 ranks: round 0"), HasSubstr("rank 1 gives"),
                    HasSubstr("0.75")));
  EXPECT_THAT(objection(broken([](int, int rank, Terms& terms) {
                if (rank == 1) terms[0].peer = 4;
              })),
              HasSubstr("rank 1 takes from 4, which is no other rank"));
  EXPECT_THAT(objection(broken([](int, int rank, Terms& terms) {
                if (rank == 1) terms[0].peer = 1;
              })),
              HasSubstr("rank 1 takes from 1"));
  EXPECT_THAT(objection(broken([](int, int, Terms& terms) {
                terms = {{terms[0].peer, 0.25}, {terms[0].peer, 0.25}};
              })),
              HasSubstr("from 3 twice"));
  EXPECT_THAT(objection(broken([](int, int, Terms& terms) { terms[0].weight = -0.5; })),
              HasSubstr("must be positive"));
  EXPECT_THAT(objection(broken([](int, int, Terms& terms) { terms[0].weight = 1; })),
              HasSubstr("must keep a part"));
}

TEST(MixingProof, ObjectsToFalseClaims) {
  MixingGraph graph = broken([](int, int, Terms&) {});
  graph.is_symmetric = true;
  EXPECT_THAT(objection(graph), HasSubstr("claims to be symmetric"));
  EXPECT_THAT(objection(broken([](int round, int, Terms& terms) {
                if (round % 2 == 1) terms.clear();
              })),
              HasSubstr("round 1 is not round 0 again"));
  EXPECT_THAT(objection(broken([](int, int rank, Terms& terms) { terms[0].peer = rank ^ 1; })),
              HasSubstr("never reaches"));
  graph.rounds = [](int) { return 0; };
  EXPECT_THAT(objection(graph), HasSubstr("repeats after 0"));
}

}  // namespace
}  // namespace paceline::collective
