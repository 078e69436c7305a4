#include "paceline/core/compress/state/state_transfer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "paceline/core/compress/averaging/sign_chunks.h"
#include "paceline/core/compress/methods/compression.h"
#include "tests/support/averaging_run.h"

namespace paceline::compress {
namespace {

using ::testing::HasSubstr;
using Sharing = StateView::Sharing;

constexpr std::string_view kMethod = "ef_sign:path=owners";

// Parts of one tensor of a rank, which keep a residual and an owner's, as a two-stage average does.
class Kept {
 public:
  Kept(std::vector<std::size_t> lengths, int rank, int ranks, float begin_with) {
    std::size_t begin = 0;
    for (const std::size_t length : lengths) {
      const AveragedTensor part{.rows = 1, .columns = length, .rank = rank, .ranks = ranks};
      const std::size_t owned =
          first_element_of(length, ranks, rank + 1) - first_element_of(length, ranks, rank);
      parts_.push_back({.tensor = 0, .begin = begin, .part = part, .compression = kMethod});
      own_.emplace_back(length);
      owners_.emplace_back(owned);
      if (begin_with != 0) {
        std::iota(own_.back().begin(), own_.back().end(), begin_with + static_cast<float>(begin));
        std::iota(owners_.back().begin(), owners_.back().end(), -begin_with);
      }
      begin += length;
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].views = {{Sharing::own, "residual", own_[i]},
                         {Sharing::chunk, "owner_residual", owners_[i]}};
    }
  }

  const std::vector<LivePart>& parts() const { return parts_; }
  const auto& own() const { return own_; }
  const auto& owners() const { return owners_; }

  // Adds what this rank holds back of the mean of each element, times the ranks.
  void add_to(std::vector<double>& held_back) const {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const AveragedTensor& part = parts_[p].part;
      const std::size_t owned = first_element_of(part.columns, part.ranks, part.rank);
      for (std::size_t i = 0; i < own_[p].size(); ++i) held_back[parts_[p].begin + i] += own_[p][i];
      for (std::size_t i = 0; i < owners_[p].size(); ++i)
        held_back[parts_[p].begin + owned + i] += part.ranks * static_cast<double>(owners_[p][i]);
    }
  }

 private:
  std::vector<LivePart> parts_;
  std::vector<std::vector<float>> own_, owners_;
};

SavedState state_of(const Kept& kept, int rank, int ranks) {
  return {.rank = rank, .ranks = ranks, .elements = {100}, .values = saved_values_of(kept.parts())};
}

TEST(StateTransfer, TheSamePartsGetTheirVeryBitsAndTheRestZeros) {
  const Kept kept({64, 36}, 1, 3, 5);
  Kept same({64, 36}, 1, 3, 77);
  ASSERT_TRUE(restore(state_of(kept, 1, 3), same.parts()));
  EXPECT_EQ(same.own(), kept.own());
  EXPECT_EQ(same.owners(), kept.owners());

  Kept without({64, 36}, 1, 3, 77);
  ASSERT_TRUE(restore({.elements = {100}}, without.parts()));
  EXPECT_EQ(without.own(), Kept({64, 36}, 1, 3, 0).own());
  EXPECT_EQ(without.owners(), Kept({64, 36}, 1, 3, 0).owners());
}

TEST(StateTransfer, AFactorKeepsTheColumnsThatItStillHas) {
  const AveragedTensor part{.rows = 8, .columns = 5};
  std::vector<float> saved(3 * 5);
  std::iota(saved.begin(), saved.end(), 1.0F);
  for (const std::size_t columns : {1u, 3u, 4u}) {
    std::vector<float> factor(columns * 5, 77);
    const auto live = [&](std::vector<float>& values) {
      return std::vector<LivePart>{{.tensor = 0,
                                    .begin = 0,
                                    .part = part,
                                    .compression = "power_sgd",
                                    .views = {{Sharing::equal, "right_factor", values}}}};
    };
    const SavedState state{.elements = {40}, .values = saved_values_of(live(saved))};
    ASSERT_TRUE(restore(state, live(factor)));
    for (std::size_t i = 0; i < factor.size(); ++i)
      EXPECT_EQ(factor[i], i < saved.size() ? saved[i] : 0) << "the others are drawn anew";
  }
}

TEST(StateTransfer, HoweverPartsAreCutAnewWhatIsHeldBackOfTheMeanStaysTheSame) {
  const std::vector<std::vector<std::size_t>> cuts = {
      {100}, {64, 36}, {1, 98, 1}, {50, 50}, {13, 17, 19, 51}};
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const auto& before : cuts) {
      for (const auto& after : cuts) {
        std::vector<double> expected(100), got(100);
        for (int rank = 0; rank < ranks; ++rank) {
          const Kept from(before, rank, ranks, static_cast<float>(rank + 1));
          const Kept to(after, rank, ranks, 0);
          ASSERT_TRUE(restore(state_of(from, rank, ranks), to.parts()));
          from.add_to(expected);
          to.add_to(got);
        }
        EXPECT_EQ(got, expected) << ranks << " ranks, whole numbers, so no rounding";
      }
    }
  }
}

TEST(StateTransfer, ValuesOfAnotherNameSharingOrMatrixAreLeftBehind) {
  std::vector<float> velocity(100, 1), factor(20, 2), target(100), momentum(100), other(20);
  const AveragedTensor part{.rows = 10, .columns = 10};
  const std::vector<LivePart> from = {{.tensor = 0,
                                       .part = part,
                                       .compression = kMethod,
                                       .views = {{Sharing::own, "velocity", velocity},
                                                 {Sharing::own, "momentum", velocity},
                                                 {Sharing::equal, "right_factor", factor}}}};
  const std::vector<LivePart> to = {{.tensor = 0,
                                     .part = {.rows = 5, .columns = 20},
                                     .compression = kMethod,
                                     .views = {{Sharing::own, "velocity", target},
                                               {Sharing::equal, "momentum", momentum},
                                               {Sharing::equal, "right_factor", other}}}};
  ASSERT_TRUE(restore({.elements = {100}, .values = saved_values_of(from)}, to));
  EXPECT_EQ(target, velocity);
  EXPECT_EQ(momentum, std::vector<float>(100)) << "each rank's own would differ between ranks";
  EXPECT_EQ(other, std::vector<float>(20));
}

TEST(StateTransfer, OfAnotherMethodRankOrModelNamesBothAndTheRemedy) {
  const Kept kept({100}, 1, 3, 5);
  const SavedState state = state_of(kept, 1, 3);
  const std::vector<std::size_t> right = {100}, longer = {101}, more = {100, 1};
  EXPECT_TRUE(check_fits(state, 1, 3, right));
  const auto told = [&](const Result<>& result) {
    EXPECT_FALSE(result);
    EXPECT_EQ(result.error().fault, Fault::misuse);
    EXPECT_THAT(result.error().what, HasSubstr("CheckpointOptions::ignore"));
    return result.error().what;
  };
  EXPECT_THAT(told(check_fits(state, 0, 3, right)), HasSubstr("rank 1 of 3, and this is rank 0"));
  EXPECT_THAT(told(check_fits(state, 1, 2, right)), HasSubstr("this is rank 1 of 2"));
  EXPECT_THAT(told(check_fits(state, 1, 3, longer)), HasSubstr("tensor 0 of 100 elements"));
  EXPECT_THAT(told(check_fits(state, 1, 3, more)), HasSubstr("1 tensors, and this one has 2"));
  EXPECT_TRUE(check_fits({.rank = 1, .ranks = 3, .elements = {100}}, 0, 2, right))
      << "without values any ranks go on";

  EXPECT_TRUE(check_is_of(state, kMethod));
  EXPECT_THAT(told(check_is_of(state, "none")),
              AllOf(HasSubstr("'ef_sign:path=owners'"), HasSubstr("'none'")));

  Kept other({60, 40}, 1, 3, 9);
  auto parts = other.parts();
  parts[1].compression = "top_k:ratio=0.01";
  const auto before = other.own();
  EXPECT_THAT(told(restore(state, parts)),
              AllOf(HasSubstr("'ef_sign:path=owners'"), HasSubstr("'top_k:ratio=0.01'")));
  EXPECT_EQ(other.own(), before) << "nothing has changed";
}

using Sharing = StateView::Sharing;

test::Gradients on_all(Sharing sharing, const test::Gradients& former, int ranks) {
  test::Gradients all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(resharded(sharing, former, ranks, rank));
  return all;
}

TEST(Resharded, KeepsTheMeanOverTheRanks) {
  for (int before = 1; before <= 9; ++before) {
    const auto former = test::gradients_of(before, 100, 1);
    const auto mean = test::mean_of(former);
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const auto now = test::mean_of(on_all(Sharing::own, former, ranks));
      for (std::size_t i = 0; i < 100; ++i)
        ASSERT_NEAR(now[i], mean[i], 1e-6) << before << " -> " << ranks;
    }
  }
}

TEST(Resharded, CutsChunksAnewAndGivesTheSameToAll) {
  std::vector<float> whole(45);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i);
  EXPECT_EQ(on_all(Sharing::equal, {whole, whole}, 3), test::Gradients(3, whole));
  for (int before = 1; before <= 7; ++before) {
    const auto former = on_all(Sharing::chunk, {whole}, before);
    for (int ranks = 1; ranks <= 7; ++ranks)
      EXPECT_EQ(on_all(Sharing::chunk, former, ranks), on_all(Sharing::chunk, {whole}, ranks));
  }
}

// The whole of it: 1-bit signs on 4 ranks go on on 2, and nothing is lost.
TEST(Resharded, CarriesARunOverToFewerRanks) {
  constexpr std::size_t kElements = 1003;
  const auto make = [&](int ranks) { return test::run_of("ef_sign:path=owners", ranks, 17, 59); };
  test::AveragingRun four = make(4), two = make(2);
  std::vector<double> balance(kElements);
  const auto run = [&](test::AveragingRun& averaging, int ranks, std::uint32_t first) {
    for (std::uint32_t step = first; step < first + 20; ++step) {
      const auto gradients = test::gradients_on_grid(ranks, kElements, step);
      const auto mean = test::mean_of(gradients);
      const auto result = averaging.step(gradients, step).means.front();
      for (std::size_t i = 0; i < kElements; ++i)
        balance[i] += static_cast<double>(result[i]) - mean[i];
    }
  };
  run(four, 4, 0);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::vector<float>> state;
    const auto views = two[rank].state();
    for (std::size_t i = 0; i < views.size(); ++i) {
      test::Gradients former;
      for (int r = 0; r < 4; ++r) former.push_back(four.state(r)[i]);
      state.push_back(resharded(views[i].sharing, former, 2, rank));
    }
    two.restore(rank, state);
  }
  run(two, 2, 20);
  const auto residual = test::mean_state(2)(two);
  auto owners = two.values(0, "owner_residual");
  const auto second = two.values(1, "owner_residual");
  owners.insert(owners.end(), second.begin(), second.end());
  for (std::size_t i = 0; i < kElements; ++i)
    ASSERT_NEAR(balance[i] + residual[i] + static_cast<double>(owners[i]), 0, 2e-5);
}

}  // namespace

}  // namespace paceline::compress
