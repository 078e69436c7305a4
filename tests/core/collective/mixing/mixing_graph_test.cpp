#include "paceline/core/collective/mixing/mixing_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "paceline/core/collective/mixing/edge_list.h"
#include "tests/core/collective/mixing/waves.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"

namespace paceline::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST(MixingGraph, IsConnectedIfEveryRankReachesEveryOther) {
  MixingGraph one = mixing_graph("ring");
  EXPECT_TRUE(is_connected(one, 1));
  EXPECT_TRUE(is_connected(one, 7));
  one.terms = [](int, int, int rank) { return std::vector<MixingTerm>{{rank ^ 1, 0.5}}; };
  EXPECT_FALSE(is_connected(one, 4));
  one.rounds = [](int) { return 2; };  // pairs of neighbours and pairs of second ones in turn
  one.terms = [](int, int round, int rank) {
    return std::vector<MixingTerm>{{round % 2 == 0 ? rank ^ 1 : rank ^ 2, 0.5}};
  };
  EXPECT_TRUE(is_connected(one, 4));
  EXPECT_FALSE(is_connected(one, 8));
  one.terms = [](int, int, int rank) {  // rank 0 hears of nobody
    return rank == 0 ? std::vector<MixingTerm>() : std::vector<MixingTerm>{{rank - 1, 0.5}};
  };
  EXPECT_FALSE(is_connected(one, 3));
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
  EXPECT_THAT(told("0 1 2\n"), HasSubstr(":1:"));
  EXPECT_THAT(told("0 1\n" + std::string(300, ' ') + "\n"),
              AllOf(HasSubstr(":2:"), HasSubstr("long")));
  EXPECT_THAT(told(std::string((4 << 20) + 1, '\n')), HasSubstr("more than 4 MiB"));
  EXPECT_THAT(refusal("@" + folder.path().string()), HasSubstr("cannot read"));
}

}  // namespace
}  // namespace paceline::collective
