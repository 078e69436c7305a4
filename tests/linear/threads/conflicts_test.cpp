#include "paceline/linear/threads/conflicts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "examples/support/king_james.h"
#include "tests/linear/threads/sparse_logistic.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

using ::testing::ElementsAre;

// The components by searching through all pairs, as sets of places in the batch.
std::vector<std::vector<std::size_t>> components_by_search(const SparseRows& rows,
                                                           std::span<const std::size_t> batch) {
  const auto meet = [&](std::size_t a, std::size_t b) {
    const auto own = rows.row(batch[a]).indices;
    return std::ranges::any_of(rows.row(batch[b]).indices,
                               [&](std::uint32_t j) { return std::ranges::binary_search(own, j); });
  };
  std::vector<int> number(batch.size(), -1);
  std::vector<std::vector<std::size_t>> found;
  for (std::size_t first = 0; first < batch.size(); ++first) {
    if (number[first] >= 0) continue;
    const int own = static_cast<int>(found.size());
    std::vector<std::size_t> open = {first};
    number[first] = own;
    while (!open.empty()) {
      const std::size_t place = open.back();
      open.pop_back();
      for (std::size_t other = 0; other < batch.size(); ++other) {
        if (number[other] >= 0 || !meet(place, other)) continue;
        number[other] = own;
        open.push_back(other);
      }
    }
    found.emplace_back();
    for (std::size_t place = 0; place < batch.size(); ++place)
      if (number[place] == own) found.back().push_back(batch[place]);
  }
  return found;
}

TEST(Conflicts, ComponentsAreThoseOfASearchInTheOrderOfTheBatchAlsoWithRepetitions) {
  SeededNumbers numbers(test::seed(2530000));
  for (int time = 0; time < 30; ++time) {
    const Samples samples = test::sparse_samples(100, 40 + numbers.below(400), 3, numbers.next());
    ConflictGraph graph(samples.rows);
    for (int batch_number = 0; batch_number < 3; ++batch_number) {
      std::vector<std::size_t> batch(1 + numbers.below(80));
      for (std::size_t& one : batch) one = numbers.below(100);
      const auto components = graph.components(batch);
      std::vector<std::vector<std::size_t>> found;
      for (const Component& one : components) {
        found.push_back(one.samples);
        EXPECT_EQ(one.work, 3 * one.samples.size());
      }
      ASSERT_EQ(found, components_by_search(samples.rows, batch));
    }
  }
}

TEST(Conflicts, TheLongestComponentsAreDealtOutFirstToWhoHasTheLeast) {
  std::vector<Component> components;
  for (const std::size_t work : {2, 9, 4, 4, 3, 2}) components.push_back({{}, work});
  EXPECT_THAT(deal_out(components, 2), ElementsAre(ElementsAre(1, 0, 5), ElementsAre(2, 3, 4)));
  EXPECT_THAT(deal_out(components, 1), ElementsAre(ElementsAre(1, 2, 3, 4, 0, 5)));
  EXPECT_THAT(deal_out(std::span(components).first(1), 3),
              ElementsAre(ElementsAre(0), ElementsAre(), ElementsAre()));
}

TEST(Conflicts, ComponentsAreSmallBelowTheMeanDegreeAndOneIsAGiantAboveIt) {
  const std::size_t n = 20000;
  const SparseRows rows = test::sparse_samples(n, 100000, 5, test::seed(2540000)).rows;
  double degree = 0;  // the mean number of samples that one shares features with
  std::map<std::uint32_t, double> counts;
  for (const std::uint32_t column : rows.columns) ++counts[column];
  for (const auto& [column, count] : counts) degree += count * (count - 1) / static_cast<double>(n);
  const auto largest = [&](double part) {
    const auto size = static_cast<std::size_t>(part * static_cast<double>(n) / degree);
    const auto order = permutation(n, test::seed(2550000));
    std::size_t most = 0;
    for (const Component& one : ConflictGraph(rows).components(std::span(order).first(size)))
      most = std::max(most, one.samples.size());
    return most;
  };
  EXPECT_LT(static_cast<double>(largest(.5)), 40 * std::log(n));
  EXPECT_GT(static_cast<double>(largest(2)), .3 * 2 * static_cast<double>(n) / degree);
}

TEST(Conflicts, SixtyFourVersesOfTheBibleAreOneComponentButForARareListOfNames) {
  const SparseRows rows = examples::king_james("testament").value().training.rows;
  const auto order = permutation(rows.size(), test::seed(2560000));
  ConflictGraph graph(rows);
  int whole = 0;
  for (std::size_t batch = 0; batch < 100; ++batch) {
    const auto components = graph.components(std::span(order).subspan(64 * batch, 64));
    whole += components.size() == 1;
    ASSERT_GE(std::ranges::max(components, {}, &Component::work).samples.size(), 61u);
  }
  EXPECT_GE(whole, 75);
}

}  // namespace
}  // namespace paceline::linear
