#include "paceline/core/schedule/path/coded_message.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "paceline/core/base/seed.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/path/message_transport.h"
#include "paceline/core/schedule/policies/policies.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

// Large and small tensors in turn; vectors among the large.
Model mixed_model() {
  Model model{.name = "mixed", .tensors = {}};
  for (const std::size_t elements : {30000, 64, 20001, 64, 40000, 8})
    model.tensors.push_back({.bytes = 4 * elements});
  return model;
}

std::vector<float> gradient_of(std::size_t elements, int rank) {
  SeededNumbers numbers(test::seed(static_cast<std::uint64_t>(rank) + 77));
  std::vector<float> values(elements);
  for (float& v : values) v = static_cast<float>(numbers.below(2001)) / 1000 - 1;
  return values;
}

// The gradients on each rank after a step.
std::vector<std::vector<float>> averaged(const std::string& text, const MessagePlan& plan,
                                         int ranks, const Model& model = mixed_model()) {
  const auto methods = compress::built_in_methods();
  const auto compression = compress::parse_compression(text, methods).value();
  std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, [&](Job& job) {
    const Dispatch dispatch(model, plan);
    const auto transport = transport_in_lanes(job.world(), 1);
    std::vector<float> values = gradient_of(model.bytes() / 4, job.rank());
    std::size_t at = 0;
    for (int m = 0; m < static_cast<int>(dispatch.messages().size()); ++m) {
      const auto& message = dispatch.messages()[static_cast<std::size_t>(m)];
      const std::span part(values.data() + at, message.end - message.begin);
      at += part.size();
      const auto averaging =
          averaging_of(parts_of(dispatch, model, m, {job.rank(), ranks, 1}), compression);
      auto exchange = averaging->begin(part, 0);
      while (exchange) {
        transport->start(0, Path::all_to_all, *exchange).wait();
        exchange = averaging->next().value();
      }
      EXPECT_FALSE(averaging->overflowed());
      EXPECT_TRUE(averaging->finish());
    }
    results[static_cast<std::size_t>(job.rank())] = values;
  });
  return results;
}

std::vector<float> mean_of(int ranks, const Model& model = mixed_model()) {
  std::vector<double> sum(model.bytes() / 4);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto values = gradient_of(sum.size(), rank);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  std::vector<float> mean;
  for (const double s : sum) mean.push_back(static_cast<float>(s / ranks));
  return mean;
}

TEST(CodedMessage, EveryMethodEndsWithTheSameBitsOnAllRanksWhateverIsFusedOrCut) {
  const Model model = mixed_model();
  for (const MessagePlan& plan :
       {barrier(model), wait_free(model), plan_of("cut", {0, 2, 6}, {.part_bytes = 50000})}) {
    for (const auto& method : compress::built_in_methods()) {
      for (const int ranks : test::is_brief() ? std::vector{2} : std::vector{1, 2, 3}) {
        const auto results = averaged(std::string(method.name), plan, ranks);
        for (const auto& result : results)
          EXPECT_EQ(result, results.front()) << method.name << " " << plan.name << " " << ranks;
      }
    }
  }
}

// The weights of a convolution and of a linear layer, longer than the part that is encoded at a
// time.
TEST(CodedMessage, PiecesOfAMatrixAreMatricesWhoseColumnsACodecKnows) {
  const Model model{
      .name = "long",
      .tensors = {{.bytes = 4 * 512 * 4608, .rows = 512}, {.bytes = 4 * 1024 * 784, .rows = 1024}}};
  for (const MessagePlan& plan : {wait_free(model), barrier(model)}) {
    const Dispatch dispatch(model, encoded(plan, "one_bit:means=columns"));
    ASSERT_GT(dispatch.messages().size(), 2u);
    std::size_t elements = 0;
    for (int m = 0; m < static_cast<int>(dispatch.messages().size()); ++m) {
      for (const PlacedPart& placed : parts_of(dispatch, model, m, {0, 2, 1})) {
        EXPECT_EQ(placed.part.columns, columns_of(model.sent(placed.place), 4)) << plan.name;
        elements += placed.part.elements();
      }
    }
    EXPECT_EQ(elements, model.bytes() / 4);
  }
}

// The Euclidean norm.
double length_of(std::span<const float> values) {
  double squares = 0;
  for (const float v : values) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares);
}
double distance_between(const std::vector<float>& result, const std::vector<float>& mean) {
  std::vector<float> difference(result.size());
  for (std::size_t i = 0; i < result.size(); ++i) difference[i] = result[i] - mean[i];
  return length_of(difference);
}

TEST(CodedMessage, AMatrixAloneInItsMessageIsApproximatedAndAHigherRankComesNearer) {
  const Model model{
      .name = "matrices",
      .tensors = {{.bytes = 4 * 200 * 100, .rows = 200}, {.bytes = 4 * 150 * 200, .rows = 150}}};
  const auto mean = mean_of(2, model);
  for (const MessagePlan& plan : {wait_free(model), barrier(model)}) {
    const auto low = averaged("power_sgd:rank=1", plan, 2, model);
    const auto high = averaged("power_sgd:rank=8", plan, 2, model);
    EXPECT_EQ(low[1], low[0]) << plan.name;
    EXPECT_EQ(high[1], high[0]) << plan.name;
    EXPECT_LT(distance_between(low[0], mean), length_of(mean)) << plan.name;
    EXPECT_LT(distance_between(high[0], mean), distance_between(low[0], mean)) << plan.name;
  }
}

TEST(CodedMessage, ThePartsOfAPlanHaveDifferentNumbersHoweverManyAMessageHolds) {
  Model model{.name = "many", .tensors = {}};
  for (int t = 0; t < 300; ++t) model.tensors.push_back({.bytes = 4 * 10, .rows = 2});
  for (const MessagePlan& plan :
       {barrier(model), wait_free(model), plan_of("some", {0, 40, 240, 300}, {})}) {
    const Dispatch dispatch(model, plan);
    std::set<std::uint32_t> numbers;
    for (int m = 0; m < static_cast<int>(dispatch.messages().size()); ++m)
      for (const PlacedPart& placed : parts_of(dispatch, model, m, {0, 2, 1}))
        EXPECT_TRUE(numbers.insert(placed.part.tensor).second) << plan.name << ", message " << m;
    EXPECT_EQ(numbers.size(), 300u) << plan.name;
  }
}

// Two steps of some matrices in one message, on two ranks.
std::vector<float> two_steps_of(std::span<const std::uint32_t> tensors, const std::string& text) {
  constexpr std::size_t kRows = 150, kColumns = 200;
  const auto methods = compress::built_in_methods();
  const auto compression = compress::parse_compression(text, methods).value();
  std::vector<float> result;
  test::run_ranks(2, [&](Job& job) {
    const auto transport = transport_in_lanes(job.world(), 1);
    std::vector<PlacedPart> parts;
    for (const std::uint32_t tensor : tensors)
      parts.push_back({{.tensor = tensor,
                        .rows = kRows,
                        .columns = kColumns,
                        .rank = job.rank(),
                        .ranks = 2,
                        .seed = 1}});
    const auto averaging = averaging_of(parts, compression);
    for (std::uint32_t step = 0; step < 2; ++step) {
      std::vector<float> values;
      for (const std::uint32_t tensor : tensors) {
        const auto own =
            gradient_of(kRows * kColumns, static_cast<int>(10 * tensor + 2 * step) + job.rank());
        values.insert(values.end(), own.begin(), own.end());
      }
      auto exchange = averaging->begin(values, step);
      while (exchange) {
        transport->start(0, Path::all_to_all, *exchange).wait();
        exchange = averaging->next().value();
      }
      EXPECT_FALSE(averaging->overflowed()) << text;
      EXPECT_TRUE(averaging->finish()) << text;
      if (job.rank() == 0 && step == 1) result = values;
    }
  });
  return result;
}

TEST(CodedMessage, AMatrixAloneInItsMessageEndsWithTheBitsThatItHasBesideAnother) {
  for (const auto& method : compress::built_in_methods()) {
    const bool has_feedback = std::ranges::any_of(
        method.settings, [](const auto& setting) { return setting.name == "feedback"; });
    for (const std::string end : {"", ":feedback=on", ":feedback=off"}) {
      if (!end.empty() && !has_feedback) continue;
      const std::string text = std::string(method.name) + end;
      auto alone = two_steps_of(std::array{1u}, text);
      const auto other = two_steps_of(std::array{2u}, text);
      alone.insert(alone.end(), other.begin(), other.end());
      EXPECT_TRUE(alone == two_steps_of(std::array{1u, 2u}, text)) << text;
    }
  }
}

// A third is sent of one, all of another, a thousandth of the last.
TEST(CodedMessage, TensorsOfDifferentOffersTravelTogetherWithTheSameBitsAsAlone) {
  Model model{.name = "offers", .tensors = {}};
  for (const int offer : {0, 2, 1}) {
    model.tensors.push_back({.bytes = 4 * 20000, .rows = 100, .offer = offer});
    model.tensors.push_back({.bytes = 4 * 50, .rows = 1});
  }
  for (const std::string text :
       {"top_k:ratio=0.3/0.001", "power_sgd:rank=8/1,start=cold", "random_k:ratio=0.3/0.001"}) {
    const auto together = averaged(text, barrier(model), 3, model);
    EXPECT_EQ(together[1], together[0]) << text;
    EXPECT_EQ(together[2], together[0]) << text;
    const auto mean = mean_of(3, model);
    // In send order: 50, thousandth, 50, whole, 50, third.
    const auto values = [&](std::size_t begin, std::size_t count) {
      return std::span(together[0]).subspan(begin, count);
    };
    for (std::size_t i = 20100; i < 40100; ++i)
      ASSERT_NEAR(together[0][i], mean[i], 1e-6) << text << ", whole";
    if (text.starts_with("power_sgd")) continue;
    const auto sent = [](std::span<const float> all) {
      return all.size() - std::ranges::count(all, 0.0F);
    };
    EXPECT_LE(sent(values(50, 20000)), 3 * 20U) << text;
    EXPECT_GE(sent(values(40150, 20000)), 5900U) << text;
  }
}

// Another value than the standard one.
double other_value(const compress::Setting& setting) {
  double half = setting.standard / 2;
  if (setting.whole) half = std::floor(half);
  if (half >= setting.least && half != setting.standard) return half;
  return std::min(setting.most, setting.standard + 1);
}

TEST(CodedMessage, EveryNumberOfEveryMethodMayDifferFromTensorToTensor) {
  Model model{.name = "offers", .tensors = {}};
  for (const int offer : {0, 1, 2, 1}) {
    model.tensors.push_back({.bytes = 4 * 20000, .rows = 100, .offer = offer});
  }
  int menus = 0;
  for (const auto& method : compress::built_in_methods()) {
    if (method.outcome != compress::Method::Outcome::mean || !method.shows_alone) continue;
    for (const auto& setting : method.settings) {
      if (!setting.words.empty()) continue;
      const std::string text = fmt::format("{}:{}={}/{}", method.name, setting.name,
                                           setting.standard, other_value(setting));
      for (const MessagePlan& plan :
           {barrier(model), plan_of("cut", one_group(4), {.part_bytes = 50000})}) {
        const auto results = averaged(text, plan, 2, model);
        EXPECT_EQ(results[1], results[0]) << text;
      }
      ++menus;
    }
  }
  EXPECT_GE(menus, 8);
}

TEST(CodedMessage, SmallTensorsAndVectorsAreExactAndTheRestIsAsPreciseAsItsCodec) {
  const Model model = mixed_model();
  for (const int ranks : {2, 4}) {
    const auto mean = mean_of(ranks);
    for (const MessagePlan& plan : {barrier(model), wait_free(model)}) {
      const auto half = averaged("fp16", plan, ranks).front();
      const Dispatch dispatch(model, plan);
      std::size_t at = 0;
      for (int place = 0; place < model.size(); ++place) {
        const std::size_t elements = model.sent(place).bytes / 4;
        const bool is_exact = elements * 4 < 65536 || elements % 2 != 0;
        for (std::size_t i = at; i < at + elements; ++i)
          ASSERT_NEAR(half[i], mean[i], is_exact ? 1e-6 : 2e-3) << place;
        at += elements;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::schedule
