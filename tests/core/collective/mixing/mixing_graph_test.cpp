#include "paceline/core/collective/mixing/mixing_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numbers>
#include <random>
#include <set>

#include "paceline/core/collective/mixing/edge_list.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"

namespace paceline::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

MixingGraph graph(std::string_view name) {
  return parse_mixing_graph(name).value();
}

double sum_of_row(const std::vector<double>& matrix, int n, int row) {
  double sum = 0;
  for (int j = 0; j < n; ++j) sum += matrix[static_cast<std::size_t>(row * n + j)];
  return sum;
}
double sum_of_column(const std::vector<double>& matrix, int n, int column) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += matrix[static_cast<std::size_t>(i * n + column)];
  return sum;
}

TEST(MixingGraph, RowsAndColumnsSumToOneAndNothingIsNegative) {
  for (const MixingGraph& one : mixing_graphs()) {
    for (int n = 1; n <= 64; ++n) {
      if (!one.check(n)) continue;
      for (int round = 0; round < one.rounds(n); ++round) {
        const auto matrix = mixing_matrix(one, n, round);
        for (int k = 0; k < n; ++k) {
          EXPECT_NEAR(sum_of_row(matrix, n, k), 1, 1e-15 * n) << one.name << " " << n;
          EXPECT_NEAR(sum_of_column(matrix, n, k), 1, 1e-15 * n) << one.name << " " << n;
        }
        EXPECT_GE(*std::ranges::min_element(matrix), 0) << one.name << " " << n;
      }
    }
  }
}

TEST(MixingGraph, EverySendMeetsItsReceive) {
  for (const MixingGraph& one : mixing_graphs()) {
    for (int n = 1; n <= 64; ++n) {
      if (!one.check(n)) continue;
      for (int round = 0; round < one.rounds(n); ++round) {
        std::set<std::pair<int, int>> sends, receives;
        for (int r = 0; r < n; ++r) {
          const MixingRow row = one.row(n, round, r);
          for (const int peer : row.to) sends.emplace(r, peer);
          for (const MixingTerm& term : row.from) {
            EXPECT_NE(term.peer, r);
            receives.emplace(term.peer, r);
          }
        }
        EXPECT_EQ(sends, receives) << one.name << " " << n;
      }
    }
  }
}

TEST(MixingGraph, ConnectsAllRanks) {
  for (const MixingGraph& one : mixing_graphs())
    for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20})
      EXPECT_TRUE(!one.check(n) || is_connected(one, n)) << one.name << " " << n;
}

// Training specification, C9.
TEST(MixingGraph, HasTheRatesOfTheClosedForms) {
  const double pi = std::numbers::pi;
  for (int n = 2; n <= 64; ++n) {
    EXPECT_NEAR(mixing_rate(graph("complete"), n), 0, 1e-7) << n;
    const double ring = n == 2 ? 0 : 1.0 / 3 + 2.0 / 3 * std::cos(2 * pi / n);
    EXPECT_NEAR(mixing_rate(graph("ring"), n), std::abs(ring), n <= 3 ? 1e-7 : 1e-10) << n;
  }
  for (const int n : {2, 4, 8, 16, 32, 64}) {
    const double hops = std::log2(n);
    EXPECT_NEAR(mixing_rate(graph("exponential"), n), (hops - 1) / (hops + 1),
                n == 2 ? 1e-7 : 1e-10);
  }
  for (const int a : {3, 4, 5, 6, 7, 8})
    EXPECT_NEAR(mixing_rate(graph("torus"), a * a), (3 + 2 * std::cos(2 * pi / a)) / 5, 1e-10);
  EXPECT_NEAR(mixing_rate(graph("torus"), 4), 0.6, 1e-10);
}

TEST(MixingGraph, OnePeerAveragesExactlyAfterOneRoundForEachDoubling) {
  for (const int n : {2, 4, 8, 16, 32, 64}) {
    for (int first = 0; first < 4; ++first) {
      std::vector<double> x(static_cast<std::size_t>(n));
      for (int r = 0; r < n; ++r) x[static_cast<std::size_t>(r)] = r * r;  // sums are exact
      double mean = 0;
      for (const double one : x) mean += one / n;
      for (int round = first; round < first + graph("one_peer").rounds(n); ++round) {
        std::vector<double> next(x.size());
        for (int r = 0; r < n; ++r) {
          const MixingRow row = graph("one_peer").row(n, round, r);
          double sum = row.own * x[static_cast<std::size_t>(r)];
          for (const MixingTerm& term : row.from)
            sum += term.weight * x[static_cast<std::size_t>(term.peer)];
          next[static_cast<std::size_t>(r)] = sum;
        }
        x = next;
      }
      for (const double one : x) EXPECT_EQ(one, mean) << n;
    }
  }
  EXPECT_GT(mixing_rate(graph("one_peer"), 6), 0.01);
}

TEST(MixingGraph, WithMetropolisWeightsIsSymmetricAndStochasticOnAnyConnectedGraph) {
  std::mt19937_64 numbers(test::seed(7));
  for (const int n : {2, 5, 9, 20}) {
    Edges edges;
    for (int r = 1; r < n; ++r)
      edges.emplace_back(static_cast<int>(numbers() % static_cast<unsigned>(r)), r);
    for (int a = 0; a < n; ++a)
      for (int b = a + 1; b < n; ++b)
        if (numbers() % 3 == 0 && std::ranges::find(edges, std::pair(a, b)) == edges.end())
          edges.emplace_back(a, b);
    const MixingGraph one = metropolis_graph("random", edges);
    const auto matrix = mixing_matrix(one, n, 0);
    for (int i = 0; i < n; ++i) {
      EXPECT_NEAR(sum_of_row(matrix, n, i), 1, 1e-15 * n);
      for (int j = 0; j < n; ++j) {
        EXPECT_EQ(matrix[static_cast<std::size_t>(i * n + j)],
                  matrix[static_cast<std::size_t>(j * n + i)]);
        EXPECT_GE(matrix[static_cast<std::size_t>(i * n + j)], 0);
      }
    }
    EXPECT_LT(mixing_rate(one, n), 1);
    EXPECT_TRUE(is_connected(one, n));
  }
}

std::string refusal(std::string_view text, int ranks = 0) {
  const auto result = parse_mixing_graph(text);
  if (!result) return result.error().what;
  if (const auto fits = result.value().check(ranks); !fits) return fits.error().what;
  return "accepted";
}

TEST(MixingGraph, NamesWhatIsWrongInATextOrAFile) {
  EXPECT_THAT(refusal("rung"),
              AllOf(HasSubstr("'rung'"), HasSubstr("one_peer"), HasSubstr("ring?")));
  EXPECT_THAT(refusal("torus", 7), AllOf(HasSubstr("7"), HasSubstr("ring")));
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "edges").string();
  const auto told = [&](const std::string& text) {
    std::ofstream(file) << text;
    return refusal("@" + file, 3);
  };
  EXPECT_THAT(refusal("@" + file + ".none"), HasSubstr("cannot read"));
  EXPECT_EQ(told("# a path\n0 1\n1 2\n"), "accepted");
  EXPECT_THAT(told("0 1\n1 x\n"), AllOf(HasSubstr(":2:"), HasSubstr("1 x")));
  EXPECT_THAT(told("0 1\n2 2\n"), AllOf(HasSubstr(":2:"), HasSubstr("itself")));
  EXPECT_THAT(told("0 1\n1 0\n"), AllOf(HasSubstr(":2:"), HasSubstr("twice")));
  EXPECT_THAT(told("0 1\n1 99999\n"), HasSubstr(":2:"));
  EXPECT_THAT(told("0 1\n2 3\n"), HasSubstr("no path leads from rank 0 to rank 2"));
  EXPECT_THAT(told("0 1\n"), AllOf(HasSubstr("has 2 ranks"), HasSubstr("there are 3")));
  EXPECT_THAT(told("\n# nothing\n"), HasSubstr("no edge"));
}

}  // namespace
}  // namespace paceline::collective
