#include "paceline/app/cli/programs/graphs_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/programs/programs_table.h"

namespace paceline::cli {
namespace {

using ::testing::ContainsRegex;

TEST(GraphsTable, TellsCostOfAStepAndRateOfAPeriod) {
  const std::string table = graphs_table(graph_rows(collective::mixing_graphs(), 8), 8);
  EXPECT_THAT(table, ContainsRegex("neighbours +complete +symmetric +1 +56 +7.00 +0.00000 "));
  EXPECT_THAT(table, ContainsRegex("neighbours +exponential +directed +1 +24 +3.00 +0.50000 "));
  EXPECT_THAT(table, ContainsRegex("neighbours +one_peer +directed +3 +8 +1.00 +0.00000 "));
  EXPECT_THAT(table, ContainsRegex("neighbours +ring +symmetric +1 +16 +2.00 +0.80474 "));
  EXPECT_THAT(table, ContainsRegex("neighbours +torus +symmetric +1 +24 +3.00 +0.60000 "));
  for (const collective::MixingGraph& graph : collective::mixing_graphs())
    EXPECT_THAT(table, ContainsRegex(" " + graph.summary.substr(0, 20)));
}

TEST(GraphsTable, SaysWhereAGraphHasNoSuchNumberOfRanks) {
  const auto rows = graph_rows(collective::mixing_graphs(), 7);
  EXPECT_THAT(graphs_table(rows, 7), ContainsRegex("torus +symmetric +- +- +- +- "));
  for (const auto& entry : nlohmann::json::parse(programs_json({}, rows, 7)))
    EXPECT_EQ(entry["fits"], entry["graph"] != "torus");
}

TEST(GraphsTable, HasTheSameFiguresInJson) {
  const auto rows = graph_rows(collective::mixing_graphs(), 16);
  const auto list = nlohmann::json::parse(programs_json({}, rows, 16));
  ASSERT_EQ(list.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(list[i]["operation"], "neighbours");
    EXPECT_EQ(list[i]["graph"], rows[i].graph.name);
    EXPECT_EQ(list[i]["messages"], rows[i].messages());
    EXPECT_EQ(list[i]["sent"], rows[i].sent());
    EXPECT_EQ(list[i]["rate"], rows[i].proof->rate);
    EXPECT_EQ(list[i]["period"], rows[i].graph.name == "one_peer" ? 4 : 1);
  }
}

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
