// GradientPath::state() and restore().
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "paceline/core/base/seed.h"
#include "paceline/core/compress/methods/compression.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/path/gradient_path.h"
#include "paceline/core/schedule/policies/policies.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kElements = 600 + 4096 + 64;

Model matrices(int offer = 0) {
  return {.name = "matrices",
          .tensors = {{.bytes = 4 * 600, .rows = 20, .offer = offer},
                      {.bytes = 4 * 4096, .rows = 64, .offer = offer},
                      {.bytes = 4 * 64, .rows = 1}}};
}

// A plan of whole groups, and one of a group that is cut.
MessagePlan whole(const std::string& codec) {
  return plan_of("whole", single_tensors(3), {.codec = codec});
}
MessagePlan cut(const std::string& codec) {
  return plan_of("cut", one_group(3), {.part_bytes = 4000, .codec = codec});
}

// Every method, so that within six steps each is in all its phases.
std::vector<std::string> compressions() {
  std::vector<std::string> texts = {"ef_sign:path=owners,min_compress_bytes=1000"};
  for (const auto& method : compress::built_in_methods()) {
    std::string text = std::string(method.name) + ":min_compress_bytes=1000";
    if (method.name == "one_bit_adam") text += ",freeze_step=4";
    if (method.name == "dgc") text += ",warm_up_steps=4,ratio=0.05";
    if (method.name == "random_k" || method.name == "top_k") text += ",ratio=0.05";
    texts.push_back(text);
  }
  return texts;
}

std::vector<float> brought(int rank, int step) {
  SeededNumbers numbers(test::seed(static_cast<std::uint64_t>(step * 10 + rank)));
  std::vector<float> values(kElements);
  for (float& v : values) v = static_cast<float>(numbers.below(2001)) / 1000 - 1;
  return values;
}

// One rank's training on a path of its own: gradients by seed, means kept.
class Training {
 public:
  Training(Job& job, const MessagePlan& plan, int offer = 0)
      : rank_(job.rank()),
        values_(kElements),
        path_(transport_in_lanes(job.world()), matrices(offer), plan, buffers(plan), 3) {}

  void train(int first_step, int steps) {
    for (int step = first_step; step < first_step + steps; ++step) {
      std::ranges::copy(brought(rank_, step), values_.begin());
      for (int place = 0; place < 3; ++place) path_.ready(place);
      path_.finish();
      means_.insert(means_.end(), values_.begin(), values_.end());
    }
  }

  std::vector<std::byte> state() { return path_.state(kNumbers); }
  void restore(Bytes state) { path_.restore(state, kNumbers); }
  const std::vector<float>& means() const { return means_; }

  static constexpr std::array<std::uint32_t, 3> kNumbers = {2, 1, 0};

 private:
  std::vector<Buffer> buffers(const MessagePlan& plan) {
    std::vector<Buffer> buffers;
    std::size_t at = 0;
    for (const MessageGroup& group : plan.groups) {
      const auto count = static_cast<std::size_t>(bytes_of(matrices(), group)) / 4;
      buffers.push_back(buffer_of(std::span(values_).subspan(at, count)));
      at += count;
    }
    return buffers;
  }

  const int rank_;
  std::vector<float> values_, means_;
  GradientPath path_;
};

// Three steps by the first offer, three by the second, one whole: then nothing is held back.
TEST(GradientPathState, WhateverOffersATensorHadAllOfItHasArrivedOnceItTravelsWhole) {
  const std::string codec = "top_k:ratio=0.05/0.2,min_compress_bytes=1000";
  for (const MessagePlan& plan : {whole(codec), cut(codec)}) {
    test::run_ranks(2, [&](Job& job) {
      std::vector<double> told(kElements);
      std::vector<std::byte> saved;
      int step = 0;
      for (const auto& [offer, steps] : {std::pair{0, 3}, {1, 3}, {2, 1}}) {
        Training training(job, plan, offer);
        if (!saved.empty()) training.restore(saved);
        training.train(step, steps);
        step += steps;
        saved = training.state();
        for (std::size_t i = 0; i < training.means().size(); ++i)
          told[i % kElements] += training.means()[i];
      }
      for (int s = 0; s < step; ++s) {
        for (const int rank : {0, 1}) {
          const auto values = brought(rank, s);
          for (std::size_t i = 0; i < kElements; ++i) told[i] -= values[i] / 2.0;
        }
      }
      for (std::size_t i = 0; i < kElements; ++i) ASSERT_NEAR(told[i], 0, 1e-5) << i;
    });
  }
}

TEST(GradientPathState, TrainingThatWasSavedAndLoadedEndsWithTheBitsOfOneThatWasNot) {
  for (const int ranks : test::is_brief() ? std::vector{2} : std::vector{1, 2, 3}) {
    for (const std::string& codec : compressions()) {
      for (const MessagePlan& plan : {whole(codec), cut(codec)}) {
        test::run_ranks(ranks, [&](Job& job) {
          Training at_one_go(job, plan);
          at_one_go.train(0, 6);
          std::vector<std::byte> saved;
          std::vector<float> means;
          {
            Training first(job, plan);
            first.train(0, 3);
            saved = first.state();
            means = first.means();
          }
          Training second(job, plan);
          second.restore(saved);
          EXPECT_EQ(second.state(), saved);
          second.train(3, 3);
          means.insert(means.end(), second.means().begin(), second.means().end());
          EXPECT_TRUE(means == at_one_go.means()) << codec << " " << plan.name << " " << ranks;
        });
      }
    }
  }
}

TEST(GradientPathState, WithoutOneItBeginsWithZeros) {
  test::run_ranks(2, [&](Job& job) {
    Training first(job, whole("ef_sign:min_compress_bytes=1000")),
        second(job, whole("ef_sign:min_compress_bytes=1000"));
    first.train(0, 1);
    const auto untouched = second.state();
    second.train(0, 1);
    EXPECT_EQ(first.means(), second.means());
    second.restore(untouched);
    second.train(0, 1);
    EXPECT_TRUE(std::ranges::equal(std::span(second.means()).last(kElements), first.means()));
  });
}

// For each name, the values that are kept for each element of the model.
std::map<std::string, std::vector<float>> elementwise(Bytes bytes) {
  const std::array<std::size_t, 3> offsets = {0, 600, 4696};
  std::map<std::string, std::vector<float>> all;
  for (const auto& saved : compress::saved_state_of(bytes).value().values) {
    if (saved.values.size() != 4 * saved.elements()) continue;
    auto& values = all[saved.name];
    values.resize(kElements);
    std::memcpy(values.data() + offsets[saved.tensor] + saved.begin, saved.values.data(),
                saved.values.size());
  }
  return all;
}

TEST(GradientPathState, WhateverThePlanEachElementKeepsItsOwnWhereAllPartsAreCompressed) {
  for (const std::string method : {"ef_sign", "one_bit", "top_k", "random_k", "gtop_k", "dgc"}) {
    const std::string codec = method + ":min_compress_bytes=0";
    test::run_ranks(2, [&](Job& job) {
      Training first(job, whole(codec)), second(job, cut(codec));
      first.train(0, 3);
      second.restore(first.state());
      // The vector travels whole, and keeps nothing or another kind of momentum.
      const auto expected = elementwise(first.state()), got = elementwise(second.state());
      for (const auto& [name, values] : expected) {
        if (name == "right_factor") continue;
        EXPECT_TRUE(
            std::ranges::equal(std::span(got.at(name)).first(4696), std::span(values).first(4696)))
            << codec << " " << name;
      }
      second.train(3, 1);
    });
  }
}

TEST(GradientPathState, OfAnotherMethodRankModelOrDamagedIsRefused) {
  std::vector<std::vector<std::byte>> saved(2);
  test::run_ranks(2, [&](Job& job) {
    Training training(job, whole("ef_sign:min_compress_bytes=1000"));
    training.train(0, 2);
    const auto rank = static_cast<std::size_t>(job.rank());
    saved[rank] = training.state();
    const auto told = [](Training& by, Bytes state) -> std::string {
      try {
        by.restore(state);
      } catch (const Error& error) {
        return fmt::format("{}: {}", name_of(error.fault()), error.what());
      }
      return "nothing was thrown";
    };
    Training other(job, whole("top_k:min_compress_bytes=1000"));
    EXPECT_THAT(told(other, saved[rank]),
                AllOf(HasSubstr("misuse"), HasSubstr("'ef_sign:"), HasSubstr("'top_k:")));
    EXPECT_THAT(told(training, Bytes(saved[rank]).first(100)), HasSubstr("io"));
    job.world().barrier().wait();
    EXPECT_THAT(told(training, saved[1 - rank]), HasSubstr("misuse"));
    EXPECT_EQ(training.state(), saved[rank]);
  });
  test::run_ranks(3, [&](Job& job) {
    Training training(job, whole("ef_sign:min_compress_bytes=1000"));
    EXPECT_THROW(training.restore(saved[0]), Error);
  });
}

}  // namespace
}  // namespace paceline::schedule
