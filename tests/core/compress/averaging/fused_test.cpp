#include "paceline/core/compress/averaging/fused.h"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/core/compress/methods/compression.h"
#include "tests/support/averaging_run.h"

namespace paceline::compress {
namespace {

using test::AveragingRun;
using test::Gradients;

struct Shape {
  std::size_t rows, columns;
};
const std::vector<Shape> kTensors = {{20, 9}, {1, 0}, {3, 5}, {111, 7}};

AveragedTensor part_of(std::size_t tensor, int rank, int ranks) {
  return {.tensor = static_cast<std::uint32_t>(10 + tensor),
          .rows = kTensors[tensor].rows,
          .columns = kTensors[tensor].columns,
          .rank = rank,
          .ranks = ranks,
          .seed = 3};
}

AveragingRun fused_run(const Compression& chosen, int ranks) {
  return {ranks, [&](int rank) {
            std::vector<Member> members;
            for (std::size_t t = 0; t < kTensors.size(); ++t) {
              const AveragedTensor part = part_of(t, rank, ranks);
              members.push_back({part, chosen.method.make(part, chosen.settings)});
            }
            return fused(std::move(members));
          }};
}

std::vector<std::string> compressions() {
  std::vector<std::string> all = {"ef_sign:path=owners", "top_k:indices=leader",
                                  "one_bit_adam:freeze_step=1", "power_sgd:min_rate=1"};
  for (const Method& method : built_in_methods()) all.emplace_back(method.name);
  return all;
}

Compression chosen_by(const std::string& text) {
  return parse_compression(text, built_in_methods()).value();
}

TEST(FusedTensors, HaveTheBitsThatTheyHaveAlone) {
  for (const std::string& text : compressions()) {
    const Compression chosen = chosen_by(text);
    for (const int ranks : {1, 2, 3, 5}) {
      SCOPED_TRACE(text + " on " + std::to_string(ranks) + " ranks");
      AveragingRun together = fused_run(chosen, ranks);
      std::vector<AveragingRun> alone;
      for (std::size_t t = 0; t < kTensors.size(); ++t)
        alone.emplace_back(ranks, [&](int rank) {
          return chosen.method.make(part_of(t, rank, ranks), chosen.settings);
        });
      for (std::uint32_t step = 0; step < 3; ++step) {
        Gradients whole(static_cast<std::size_t>(ranks));
        std::vector<float> expected;
        for (std::size_t t = 0; t < kTensors.size(); ++t) {
          const auto gradients =
              test::gradients_of(ranks, kTensors[t].rows * kTensors[t].columns, 100 * step + t);
          const auto mean = alone[t].step(gradients, step).means.front();
          expected.insert(expected.end(), mean.begin(), mean.end());
          for (std::size_t r = 0; r < whole.size(); ++r)
            whole[r].insert(whole[r].end(), gradients[r].begin(), gradients[r].end());
        }
        const auto outcome = together.step(whole, step);
        ASSERT_EQ(outcome.means.front(), expected);
        ASSERT_EQ(outcome.means.back(), expected);
      }
      EXPECT_EQ(together.kinds.size(), alone.back().kinds.size()) << "one collective for all";
    }
  }
}

TEST(FusedTensors, AreAllSkippedWhereOneOverflows) {
  for (const std::string& text : compressions()) {
    SCOPED_TRACE(text);
    const Compression chosen = chosen_by(text);
    AveragingRun run = fused_run(chosen, 3), other = fused_run(chosen, 3);
    for (std::uint32_t step = 0; step < 3; ++step) {
      const Gradients good = test::gradients_of(3, 972, step);
      Gradients bad = good;
      bad[1][185] = std::numeric_limits<float>::infinity();
      const auto before = run.state(0);
      EXPECT_TRUE(run.step(bad, step).overflowed);
      EXPECT_EQ(run.state(0), before);
      ASSERT_EQ(run.step(good, step).means, other.step(good, step).means);
    }
  }
}

TEST(FusedTensors, TellWhoseStateIsWhose) {
  AveragingRun run = fused_run(chosen_by("power_sgd:min_rate=1"), 2);
  std::vector<std::pair<std::uint32_t, std::string_view>> names;
  for (const StateView& view : run[0].state()) names.emplace_back(view.tensor, view.name);
  EXPECT_EQ(names.size(), 4u) << "two of the tensors are so small that they stay whole";
  EXPECT_EQ(names.front(), (std::pair{10u, std::string_view("residual")}));
  EXPECT_EQ(names.back(), (std::pair{13u, std::string_view("right_factor")}));
}

TEST(FusedTensors, OfMethodsWhoseExchangesDifferAreRefused) {
  const AveragedTensor part{.columns = 10};
  std::vector<Member> members;
  for (const char* text : {"fp16", "bf16"}) {
    const Compression chosen = chosen_by(text);
    members.push_back({part, chosen.method.make(part, chosen.settings)});
  }
  const auto both = fused(std::move(members));
  std::vector<float> gradient(20);
  EXPECT_THROW(both->begin(gradient, 0), Error);
  EXPECT_THROW(fused({}), Error);
}

}  // namespace
}  // namespace paceline::compress
