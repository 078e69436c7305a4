// Claims that hold for every compression method, also for one that is added later. Also covers
// paceline/core/compress/averaging/sign_chunks.h, which several are made of.
#include "paceline/core/compress/methods/method_catalogue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "paceline/core/base/seed.h"
#include "paceline/core/compress/payload/message.h"
#include "tests/support/averaging_run.h"
#include "tests/support/gradients.h"
#include "tests/support/seed.h"

namespace paceline::compress {
namespace {

using test::AveragingRun;
using test::Gradients;
using test::run_of;

// Settings with which small tensors and few steps reach all of a method.
std::vector<std::string> variants() {
  std::vector<std::string> all = {
      "adacomp:bin=4",
      "adacomp:bin=200",
      "dgc:ratio=0.1,clip=1,nesterov=on,warm_up_steps=2",
      "ef_sign:path=owners",
      "gtop_k:ratio=0.1",
      "gtop_k:ratio=0.1,mode=paper",
      "int8:feedback=on,bucket=7",
      "int8:bits=16",
      "one_bit:means=columns",
      "one_bit_adam:freeze_step=1",
      "power_sgd:min_rate=1",
      "power_sgd:min_rate=1,start=cold,feedback=off",
      "power_sgd:min_rate=1,dense_steps=1",
      "qsgd:norm=max,feedback=on,gain=0.5",
      "random_k:ratio=0.1,feedback=off",
      "top_k:ratio=0.1,indices=leader,share=0.5",
  };
  for (const Method& method : built_in_methods()) all.emplace_back(method.name);
  return all;
}

// Rows of tensors of 9 columns.
const std::size_t kRows[] = {0, 1, 3, 111};
constexpr std::size_t kColumns = 9;

Gradients with(float value, Gradients gradients, std::size_t rank) {
  gradients[rank][gradients[rank].size() / 2] = value;
  return gradients;
}

bool same_bits(const std::vector<float>& one, const std::vector<float>& other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0);
}

TEST(CompressionMethods, HaveNamesOfTheirOwnAndSaneSettings) {
  const Catalogue methods = built_in_methods();
  EXPECT_EQ(methods.size(), 15u);
  for (const Method& method : methods) {
    SCOPED_TRACE(method.name);
    EXPECT_EQ(find(methods, method.name), &method);
    EXPECT_FALSE(method.summary.empty());
    EXPECT_FALSE(method.reference.empty());
    EXPECT_NE(method.make, nullptr);
    for (const Setting& setting : method.settings) {
      EXPECT_LE(setting.least, setting.standard) << setting.name;
      EXPECT_GE(
          setting.words.empty() ? setting.most : static_cast<double>(setting.words.size() - 1),
          setting.standard)
          << setting.name;
      EXPECT_FALSE(setting.meaning.empty()) << setting.name;
    }
  }
  EXPECT_EQ(find(methods, "zip"), nullptr);
}

TEST(CompressionMethods, GiveTheSameBitsOnAllRanksWhateverTheirNumber) {
  for (const std::string& text : variants()) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (const std::size_t rows : kRows) {
        SCOPED_TRACE(fmt::format("{} on {} ranks, {} rows", text, ranks, rows));
        AveragingRun run = run_of(text, ranks, rows, kColumns);
        for (std::uint32_t step = 0; step < 3; ++step) {
          const auto outcome = run.step(test::gradients_of(ranks, rows * kColumns, step), step);
          ASSERT_EQ(outcome.means.size(), static_cast<std::size_t>(ranks));
          for (const auto& mean : outcome.means)
            ASSERT_TRUE(same_bits(mean, outcome.means.front()));
        }
      }
    }
  }
}

// How far the mean of all results so far is from the gradient that all ranks gave in every step.
struct Apart {
  double distance;          // over the gradient's length
  double cosine;            // between the two
  double cosine_of_scaled;  // the same, when each element was multiplied by the gradient's size
};

class EqualGradients {
 public:
  explicit EqualGradients(const std::string& text)
      : run_(run_of(text, 4, 40, kColumns)),
        gradient_(test::gradients_of(1, 40 * kColumns, 3).front()),
        sum_(gradient_.size()) {}

  Apart after(std::uint32_t steps) {
    for (; done_ < steps; ++done_) {
      const auto outcome = run_.step(Gradients(4, gradient_), done_);
      EXPECT_FALSE(outcome.means.empty());
      if (outcome.means.empty()) return {INFINITY, -1};
      for (std::size_t i = 0; i < sum_.size(); ++i)
        sum_[i] += static_cast<double>(outcome.means[0][i]);
    }
    std::vector<double> mean(sum_), scaled(sum_);
    double apart = 0;
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      mean[i] /= steps;
      scaled[i] *= std::abs(gradient_[i]);
      apart += (mean[i] - gradient_[i]) * (mean[i] - gradient_[i]);
    }
    return {std::sqrt(apart / test::squares(gradient_)), cosine_of(mean), cosine_of(scaled)};
  }

 private:
  double cosine_of(const std::vector<double>& values) const {
    double product = 0, squares = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      product += values[i] * gradient_[i];
      squares += values[i] * values[i];
    }
    return product / std::sqrt(squares * test::squares(gradient_));
  }

  AveragingRun run_;
  const std::vector<float> gradient_;
  std::vector<double> sum_;
  std::uint32_t done_ = 0;
};

// Methods that give signs, or Adam's direction: each element is divided by its own size.
bool gives_direction(const std::string& text) {
  return text == "sign" || text.starts_with("one_bit_adam");
}

// All others but those that keep a momentum or are told to forget the elements that they left out.
bool averages(const std::string& text) {
  return !gives_direction(text) && !text.starts_with("dgc") &&
         text != "power_sgd:min_rate=1,start=cold,feedback=off";
}

// With feedback the error of many steps is that of one; with random rounding it falls with the root
// of their number. So 16 times as many steps leave at most a quarter of it, or a little more than
// half in the long first round of a method that sends one element in a thousand.
TEST(CompressionMethods, ApproachTheMeanOfEqualGradients) {
  constexpr double kRounding = 0x1p-9;  // of bf16, whose error is the same in every step
  for (const std::string& text : variants()) {
    SCOPED_TRACE(text);
    EqualGradients steps(text);
    const Apart early = steps.after(16), late = steps.after(256);
    if (averages(text)) {
      EXPECT_LE(late.distance, std::max(0.6 * early.distance, kRounding)) << early.distance;
      EXPECT_LT(late.distance, 0.5);
    } else {
      EXPECT_GE(gives_direction(text) ? late.cosine_of_scaled : late.cosine, 0.9)
          << "it points elsewhere";
    }
  }
}

TEST(CompressionMethods, SkipTheStepOnAllRanksWhereOneHasNoFiniteValue) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       -std::numeric_limits<float>::infinity()};
  for (const std::string& text : variants()) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
        SCOPED_TRACE(fmt::format("{} on {} ranks, NaN or infinity on {}", text, ranks, rank));
        AveragingRun run = run_of(text, ranks, 12, kColumns);
        AveragingRun other = run_of(text, ranks, 12, kColumns);
        for (std::uint32_t step = 0; step < 3; ++step) {
          const Gradients good = test::gradients_of(ranks, 12 * kColumns, step);
          const auto before = run.state(static_cast<int>(rank));
          const auto skipped = run.step(with(bad[step % 2], good, rank), step);
          ASSERT_TRUE(skipped.overflowed);
          EXPECT_EQ(run.state(static_cast<int>(rank)), before);
          const auto outcome = run.step(good, step);
          ASSERT_FALSE(outcome.means.empty());
          ASSERT_TRUE(same_bits(outcome.means.front(), other.step(good, step).means.front()))
              << "a skipped step left something behind";
        }
      }
    }
  }
}

TEST(CompressionMethods, GoOnFromTheirSavedStateAsIfNothingHadHappened) {
  for (const std::string& text : variants()) {
    SCOPED_TRACE(text);
    AveragingRun run = run_of(text, 3, 20, kColumns);
    for (std::uint32_t step = 0; step < 4; ++step)
      run.step(test::gradients_of(3, 20 * kColumns, step), step);
    AveragingRun restarted = run_of(text, 3, 20, kColumns);
    for (int rank = 0; rank < 3; ++rank) restarted.restore(rank, run.state(rank));
    for (std::uint32_t step = 4; step < 7; ++step) {
      const Gradients gradients = test::gradients_of(3, 20 * kColumns, step);
      ASSERT_TRUE(same_bits(run.step(gradients, step).means.front(),
                            restarted.step(gradients, step).means.front()));
    }
  }
}

bool carries_messages(const Exchange& exchange) {
  return exchange.kind != Exchange::Kind::all_reduce;
}

struct Damaged {
  AveragingRun::Outcome outcome;
  bool done = false;  // false: the step has no such exchange
};

// A step in whose exchange number `target` of those with messages the first message that each rank
// received is damaged.
Damaged damaged_step(const std::string& text, int target,
                     const std::function<void(MutableBytes)>& damage) {
  Damaged result;
  AveragingRun run = run_of(text, 4, 20, kColumns);
  run.step(test::gradients_of(4, 20 * kColumns, 0), 0);
  run.on_carried_out = [&](std::vector<Exchange>& exchanges) {
    if (!carries_messages(exchanges.front()) || target-- != 0) return;
    for (Exchange& exchange : exchanges) {
      if (exchange.output.count == 0) continue;
      damage(exchange.output.bytes());
      result.done = true;
    }
  };
  result.outcome = run.step(test::gradients_of(4, 20 * kColumns, 1), 1);
  return result;
}

TEST(CompressionMethods, NameTheRankWhoseMessageIsDamaged) {
  for (const std::string& text : variants()) {
    for (int target = 0;; ++target) {
      SCOPED_TRACE(fmt::format("{}, exchange {}", text, target));
      const Damaged damaged =
          damaged_step(text, target, [](MutableBytes received) { received[30] ^= std::byte{1}; });
      if (!damaged.done) break;
      ASSERT_TRUE(damaged.outcome.failure) << "it went unseen";
      EXPECT_EQ(damaged.outcome.failure->ranks.size(), 1u);
      EXPECT_EQ(damaged.outcome.failure->what.find("from rank "), 0u)
          << damaged.outcome.failure->what;
    }
  }
}

// Any bytes that a peer sends after a right header give a failure that names it, or a result.
TEST(CompressionMethods, RefuseOrSurviveAnyPayload) {
  SeededNumbers numbers(test::seed(11));
  const auto replace = [&numbers](MutableBytes received) {
    MessageHeader header = open(received).value().header;
    const std::size_t longest = received.size() - MessageHeader::kBytes;
    if (numbers.below(4) == 0)
      header.payload_bytes = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(numbers.below(header.payload_bytes + 8), longest - longest % 8));
    const MutableBytes message =
        received.first(std::min(message_bytes(header.payload_bytes), received.size()));
    const std::uint64_t few = numbers.below(2) == 0 ? 4 : 256;
    for (std::byte& byte : message.subspan(MessageHeader::kBytes)) {
      if (numbers.below(few) != 0) byte = static_cast<std::byte>(numbers.below(256));
    }
    seal(header, message);
  };
  for (const std::string& text : variants()) {
    for (int target = 0;; ++target) {
      bool done = false;
      for (int i = 0; i < 20; ++i) {
        SCOPED_TRACE(fmt::format("{}, exchange {}", text, target));
        const Damaged damaged = damaged_step(text, target, replace);
        done = damaged.done;
        if (!damaged.outcome.failure) continue;
        EXPECT_EQ(damaged.outcome.failure->ranks.size(), 1u);
        EXPECT_EQ(damaged.outcome.failure->what.find("from rank "), 0u)
            << damaged.outcome.failure->what;
      }
      if (!done) break;
    }
  }
}

TEST(CompressionMethods, FindOutARankThatIsInAnotherStep) {
  for (const std::string& text : variants()) {
    SCOPED_TRACE(text);
    AveragingRun run = run_of(text, 2, 20, kColumns);
    Gradients gradients = test::gradients_of(2, 20 * kColumns, 0);
    std::vector<Exchange> exchanges = {*run[0].begin(gradients[0], 8),
                                       *run[1].begin(gradients[1], 12)};
    if (!carries_messages(exchanges.front()) || exchanges.front().kind == Exchange::Kind::broadcast)
      continue;
    test::carry_out(exchanges);
    const auto next = run[0].next();
    ASSERT_FALSE(next);
    EXPECT_EQ(next.error().fault, Fault::mismatch);
    EXPECT_EQ(next.error().ranks, std::vector<int>{1});
    EXPECT_EQ(next.error().what,
              "rank 1 sent a compressed gradient of step 12 where step 8 was expected; give all "
              "ranks the same model and the same compression");
  }
}

}  // namespace
}  // namespace paceline::compress
