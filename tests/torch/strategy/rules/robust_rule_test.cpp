// Robust rules (docs/strategies/robust.md): their invariants, and what they promise.
#include "paceline/torch/strategy/rules/robust_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "tests/support/seed.h"
#include "tests/torch/strategy/rules/plain_rules.h"

namespace paceline {
namespace {

using strategy::rules::GradientRows;
using strategy::rules::robust_rules;
using strategy::rules::RobustRule;
using strategy::rules::RuleSettings;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const auto kF64 = at::TensorOptions().dtype(at::kDouble);

at::Tensor normal_rows(std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
  return at::randn({rows, columns}, at::detail::createCPUGenerator(seed), kF64);
}

at::Tensor applied(const RobustRule& rule, const at::Tensor& rows, int faulty,
                   RuleSettings settings = {.rounds = 60}) {
  if (!settings.start.defined()) settings.start = at::zeros({rows.size(1)}, rows.options());
  return rule.apply(GradientRows(rows.contiguous(), faulty), settings);
}

const RobustRule& rule_named(std::string_view name) {
  for (const RobustRule& rule : robust_rules())
    if (rule.name == name) return rule;
  throw std::out_of_range(std::string(name));
}

double farthest(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}
double root_mean_square(const at::Tensor& a) {
  return a.to(at::kDouble).square().mean().sqrt().item<double>();
}

TEST(RobustRules, AreTheirDefinitionsInPlainLoops) {
  for (const RobustRule& rule : robust_rules()) {
    for (const int ranks : {1, 2, 3, 5, 8, 11}) {
      for (const std::int64_t columns : {1, 7, 1024, 2500}) {
        const auto number = static_cast<std::uint64_t>(1000 * ranks + columns);
        const at::Tensor rows = normal_rows(test::seed(number), ranks, columns);
        for (int faulty = 0; rule.least_ranks(faulty) <= std::max(ranks, 3); ++faulty) {
          const RuleSettings settings{.radius = 2, .rounds = 5, .start = rows[0] + 1};
          const at::Tensor plain =
              plain_rule(std::string(rule.name), rows, faulty, settings.start, 2, 5);
          EXPECT_LE(farthest(applied(rule, rows, faulty, settings), plain), 1e-12)
              << rule.name << " of " << ranks << " x " << columns << ", faulty " << faulty;
        }
      }
    }
  }
}

TEST(RobustRules, OfFloatsComputeInDoubles) {
  for (const RobustRule& rule : robust_rules()) {
    const at::Tensor rows = (1000 + normal_rows(test::seed(1), 7, 3000)).to(at::kFloat);
    const at::Tensor start = at::full({3000}, 1000, at::kFloat);
    const at::Tensor result = applied(rule, rows, 2, {.start = start});
    EXPECT_EQ(result.scalar_type(), at::kFloat);
    // One rounding at the end.
    EXPECT_LE(farthest(result, plain_rule(std::string(rule.name), rows, 2, start)), 4e-5)
        << rule.name;
  }
}

TEST(RobustRules, FollowPermutationsTranslationsAndAllButClippingScales) {
  const at::Tensor rows = normal_rows(test::seed(2), 11, 6),
                   shift = normal_rows(test::seed(3), 1, 6)[0],
                   order = at::randperm(11, at::detail::createCPUGenerator(test::seed(4)),
                                        at::TensorOptions().dtype(at::kLong));
  for (const RobustRule& rule : robust_rules()) {
    const double tolerance = rule.name == "geometric_median" ? 1e-6 : 1e-12;
    const at::Tensor result = applied(rule, rows, 3);
    EXPECT_LE(farthest(applied(rule, rows.index_select(0, order), 3), result), 1e-12) << rule.name;
    const at::Tensor moved = applied(rule, rows + shift, 3, {.rounds = 60, .start = shift});
    EXPECT_LE(farthest(moved, result + shift), tolerance) << rule.name;
    const double scaled = farthest(applied(rule, 4 * rows, 3), 4 * result);
    if (rule.keeps_state) EXPECT_GT(scaled, 1e-3) << rule.name;
    else EXPECT_LE(scaled, tolerance) << rule.name;
  }
}

TEST(RobustRules, KeepToTheHonestRowsWhereTheMeanDoesNot) {
  for (std::uint64_t own = 0; own < 20; ++own) {
    const at::Tensor rows =
        at::cat({1 + 0.1 * normal_rows(test::seed(own), 8, 50), at::full({3, 50}, -100.0, kF64)});
    for (const RobustRule& rule : robust_rules())
      EXPECT_LT(root_mean_square(applied(rule, rows, 3) - 1), 0.15) << rule.name;
    EXPECT_GT(root_mean_square(rows.mean(0) - 1), 20);
    const at::Tensor chosen = applied(rule_named("krum"), rows, 3);
    int honest = 0;
    for (std::int64_t i = 0; i < 8; ++i) honest += chosen.equal(rows[i]) ? 1 : 0;
    EXPECT_EQ(honest, 1);
  }
}

TEST(RobustRules, WithoutFaultyRowsAreNearTheMean) {
  const at::Tensor rows = 1 + 0.1 * normal_rows(test::seed(5), 8, 50), mean = rows.mean(0);
  EXPECT_LE(farthest(applied(rule_named("trimmed_mean"), rows, 0), mean), 1e-14);
  for (const RobustRule& rule : robust_rules())
    EXPECT_LT(root_mean_square(applied(rule, rows, 0, {.radius = 10, .rounds = 60}) - mean), 0.15)
        << rule.name;
}

// The faulty pull by f * radius together, the honest ones back by n - f times the bias.
TEST(RobustRules, ClippingIsBiasedByItsClosedForm) {
  const at::Tensor rows = at::cat({at::ones({8, 50}, kF64), at::full({3, 50}, -100.0, kF64)});
  const at::Tensor result = applied(rule_named("clipping"), rows, 3, {.rounds = 400});
  EXPECT_NEAR((result - 1).norm().item<double>(), 3.0 / 8, 1e-9);
}

TEST(RobustRules, LeaveOutRowsThatAreNotFiniteAndCountThemAsFaulty) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor honest = normal_rows(test::seed(6), 8, 9);
  at::Tensor rows = at::cat({honest.slice(0, 0, 3), at::zeros({2, 9}, kF64), honest.slice(0, 3)});
  rows[3].fill_(kNan);
  rows[4][8] = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(GradientRows(rows, 3).count(), 8U);
  EXPECT_EQ(GradientRows(rows, 3).faulty(), 1);
  EXPECT_EQ(GradientRows(rows, 1).faulty(), 0);
  for (const RobustRule& rule : robust_rules())
    EXPECT_TRUE(applied(rule, rows, 3).equal(applied(rule, honest, 1))) << rule.name;
}

TEST(RobustRules, BearNumbersWhoseSquaresOverflow) {
  at::Tensor rows = normal_rows(test::seed(7), 8, 9);
  rows[0].fill_(1e200);
  rows[5].fill_(-1e300);
  for (const RobustRule& rule : robust_rules())
    EXPECT_LT(applied(rule, rows, 2).abs().max().item<double>(), 10) << rule.name;
}

TEST(RobustRules, TakeTheLowestRowsOfEqualScores) {
  // Each has one neighbour at its place and one at a distance of 5.
  const at::Tensor rows = at::tensor({0.0, 0.0, 5.0, 5.0}, kF64).view({4, 1});
  for (const char* name : {"krum", "multi_krum"}) {
    EXPECT_EQ(applied(rule_named(name), rows, 0).item<double>(), 0) << name;
    EXPECT_EQ(applied(rule_named(name), rows.flip(0), 0).item<double>(), 5) << name;
  }
}

TEST(RobustRules, HaveTheSameBitsWithAnyNumberOfThreads) {
  const at::Tensor rows = normal_rows(test::seed(8), 7, 100'000);
  const int threads = at::get_num_threads();
  for (const RobustRule& rule : robust_rules()) {
    at::set_num_threads(1);
    const at::Tensor alone = applied(rule, rows, 2, {.radius = 100});
    at::set_num_threads(3);
    EXPECT_TRUE(applied(rule, rows, 2, {.radius = 100}).equal(alone)) << rule.name;
  }
  at::set_num_threads(threads);
}

// The known weakness: shards that differ look like faulty ones.
TEST(RobustRules, TakeTheMajorityOfRowsThatDifferHonestly) {
  const at::Tensor rows = at::cat({at::zeros({6, 1}, kF64), at::ones({5, 1}, kF64)});
  EXPECT_EQ(applied(rule_named("median"), rows, 5).item<double>(), 0);
  EXPECT_EQ(applied(rule_named("krum"), rows, 4).item<double>(), 0);
  EXPECT_NEAR(rows.mean().item<double>(), 5.0 / 11, 1e-15);
}

TEST(RobustRules, RefuseMoreFaultyRanksThanTheyBearAndNameRemedies) {
  for (const RobustRule& rule : robust_rules()) {
    for (int faulty = 0; faulty < 5; ++faulty) {
      const int least = 2 * faulty + (rule.name.find("krum") == std::string_view::npos ? 1 : 3);
      EXPECT_TRUE(check(rule, least, faulty)) << rule.name;
      EXPECT_FALSE(check(rule, least - 1, faulty)) << rule.name;
    }
  }
  EXPECT_THAT(check(rule_named("krum"), 4, 1).error().what,
              AllOf(HasSubstr("2 * 1 + 3 = 5 ranks"), HasSubstr("there are 4"),
                    HasSubstr("faulty=0"), HasSubstr("rule=median or trimmed_mean")));
  EXPECT_THAT(check(rule_named("median"), 4, 2).error().what,
              AllOf(HasSubstr("faulty=1"), Not(HasSubstr("rule="))));
}

// --- a training ----------------------------------------------------------------------------------

// Logistic regression with a small penalty: 512 samples, 10 weights.
class Logistic {
 public:
  Logistic() {
    at::Generator generator = at::detail::createCPUGenerator(21);
    x_ = at::randn({512, 10}, generator, kF64);
    y_ = (at::mv(x_, at::randn({10}, generator, kF64)) + at::randn({512}, generator, kF64)).sign();
  }
  double loss(const at::Tensor& w) const {
    return (at::softplus(-y_ * at::mv(x_, w)).mean() + 0.005 * w.square().sum()).item<double>();
  }
  at::Tensor gradient(const at::Tensor& w, const at::Tensor& batch) const {
    const at::Tensor x = x_.index_select(0, batch), y = y_.index_select(0, batch);
    return -at::mv(x.t(), y * at::sigmoid(-y * at::mv(x, w))) / batch.size(0) + 0.01 * w;
  }

 private:
  at::Tensor x_, y_;
};

TEST(RobustRules, TrainAlthoughTwoOfElevenTurnTheirGradientsRound) {
  const Logistic problem;
  // `aggregate` makes one gradient of eleven.
  const auto train = [&](double factor, const auto& aggregate) {
    at::Generator generator = at::detail::createCPUGenerator(22);
    at::Tensor w = at::zeros({10}, kF64);
    for (int step = 0; step < 400; ++step) {
      std::vector<at::Tensor> rows;
      for (int rank = 0; rank < 11; ++rank) {
        const at::Tensor batch =
            at::randint(512, {32}, generator, at::TensorOptions().dtype(at::kLong));
        rows.push_back(problem.gradient(w, batch) * (rank < 2 ? factor : 1.0));
      }
      w = w - 0.3 * aggregate(at::stack(rows));
    }
    return problem.loss(w);
  };
  const auto mean = [](const at::Tensor& rows) { return rows.mean(0); };
  const double clean = train(1, mean);
  EXPECT_GT(train(-10, mean), 10 * clean);
  for (const RobustRule& rule : robust_rules()) {
    at::Tensor centre = at::zeros({10}, kF64);
    const double loss = train(-10, [&](const at::Tensor& rows) {
      return centre = applied(rule, rows, 2, {.radius = 0.4, .rounds = 3, .start = centre});
    });
    EXPECT_LT(loss, 1.05 * clean) << rule.name;
  }
}

}  // namespace
}  // namespace paceline
