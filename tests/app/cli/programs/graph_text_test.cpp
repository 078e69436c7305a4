#include "paceline/app/cli/programs/graph_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

collective::MixingGraph named_graph(std::string_view name) {
  return collective::parse_mixing_graph(name).value();
}

std::string header_of_graph(std::string_view name, int ranks) {
  return graph_header(named_graph(name), ranks, verify(named_graph(name), ranks).value());
}

TEST(GraphHeader, TellsTheCostOfAStepAndWhatAPeriodLeaves) {
  EXPECT_EQ(header_of_graph("ring", 8),
            "neighbours ring, 8 ranks: 16 messages and 2 vectors from the busiest rank a step\n"
            "symmetric weights, whose rows and columns sum to 1; a step leaves at most 0.80474 of "
            "the replicas' distance\n");
  EXPECT_EQ(header_of_graph("one_peer", 6),
            "neighbours one_peer, 6 ranks: 6 messages and 1 vector from the busiest rank a step\n"
            "directed weights, whose rows and columns sum to 1; after 3 steps it begins anew, and "
            "they leave at most 0.21651 of the replicas' distance\n");
}

TEST(GraphWeights, HasALineForEachRankAndRoundOfAPeriod) {
  EXPECT_EQ(graph_weights(named_graph("ring"), 3, -1),
            "rank 0: x0 = 0.3333 x0 + 0.3333 x1 + 0.3333 x2\n"
            "rank 1: x1 = 0.3333 x1 + 0.3333 x0 + 0.3333 x2\n"
            "rank 2: x2 = 0.3333 x2 + 0.3333 x0 + 0.3333 x1\n");
  EXPECT_EQ(graph_weights(named_graph("one_peer"), 4, 1),
            "rank 1, round 0: x1 = 0.5 x1 + 0.5 x0\n"
            "rank 1, round 1: x1 = 0.5 x1 + 0.5 x3\n");
}

TEST(GraphWeights, OfManyRanksSayHowToSeeFewer) {
  EXPECT_THAT(graph_weights(named_graph("ring"), 101, -1), HasSubstr("--rank R"));
  EXPECT_THAT(graph_weights(named_graph("ring"), 101, 100), HasSubstr("x100 = "));
}

}  // namespace
}  // namespace paceline::cli
