// DataParallel where a compression has a menu (schedule/adapt/gradient_sums.h).
#include "paceline/torch/replica/parts/model_parts.h"
#include "tests/support/seed.h"
#include "tests/torch/parallel/saved_training.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

constexpr int kRanks = 2, kStepsOfMenus = 60;
const std::string kMenu = "top_k:ratio=0.02/0.004/0.1,min_compress_bytes=0,choose_every=6";

// Two matrices and a vector, whose gradients are the factors that they are multiplied by.
std::vector<replica::Parameter> three_parameters() {
  std::vector<replica::Parameter> all;
  for (const auto& [name, sizes] : std::vector<std::pair<std::string, std::vector<std::int64_t>>>{
           {"a", {160, 128}}, {"b", {200, 100}}, {"bias", {32}}})
    all.push_back({name, at::zeros(sizes).set_requires_grad(true)});
  return all;
}

// Multiples of 2^-10, so that sums are exact; from step 30 on eight times as large.
std::vector<at::Tensor> gradients(int rank, int step) {
  const int seed = step * kRanks + rank;
  at::Generator generator =
      at::detail::createCPUGenerator(test::seed(static_cast<std::uint64_t>(seed + 1)));
  std::vector<at::Tensor> all;
  for (const auto& parameter : three_parameters())
    all.push_back(at::randint(-1000, 1000, parameter.tensor.sizes(), generator, at::kFloat) / 1024);
  for (auto& gradient : all) gradient.mul_(step >= 30 ? 8 : 1);
  return all;
}

struct Seen {
  std::vector<at::Tensor> parameters;
  std::vector<std::vector<float>> residuals;
  std::vector<StepReport> reports;
};

Seen train_by_menu(Job& job, const DataParallelOptions& options) {
  const auto all = three_parameters();
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : all) tensors.push_back(parameter.tensor);
  DataParallel parallel(all, job, options);
  torch::optim::SGD optimizer(tensors, torch::optim::SGDOptions(1));
  Seen seen;
  for (int step = 0; step < kStepsOfMenus; ++step) {
    optimizer.zero_grad();
    const auto own = gradients(job.rank(), step);
    // The vector first: gradients are not made in the order of registration.
    at::Tensor loss = (tensors.back() * own.back()).sum();
    for (std::size_t i = 0; i + 1 < own.size(); ++i) loss = loss + (tensors[i] * own[i]).sum();
    loss.backward();
    parallel.step(optimizer);
    seen.reports.push_back(parallel.last_step());
  }
  seen.residuals = residuals_in(state_of(parallel).own);
  for (const auto& tensor : tensors) seen.parameters.push_back(tensor.detach().clone());
  return seen;
}

TEST(DataParallelMenus, WhateverIsChosenAndWhenNothingOfAGradientIsLost) {
  for (const std::string schedule : {"buckets", "wait_free", "barrier", "merged", "general"}) {
    SameEverywhere same;
    std::vector<Seen> ranks(kRanks);
    run_ranks(kRanks, [&](Job& job) {
      Seen& seen = ranks[static_cast<std::size_t>(job.rank())];
      seen = train_by_menu(job, {.schedule = schedule, .compression = kMenu});
      same.tell("parameters", seen.parameters);
    });
    std::vector<at::Tensor> expected;
    for (const auto& parameter : three_parameters())
      expected.push_back(at::zeros(parameter.tensor.sizes()));
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int step = 0; step < kStepsOfMenus; ++step) {
        const auto own = gradients(rank, step);
        for (std::size_t i = 0; i < own.size(); ++i) expected[i] -= own[i] / kRanks;
      }
      // The residuals hold gradients that were not applied yet.
      const auto& held_back = ranks[static_cast<std::size_t>(rank)].residuals;
      for (std::size_t i = 0; i < held_back.size(); ++i)
        expected[i] += at::tensor(held_back[i]).view(expected[i].sizes()) / kRanks;
    }
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(at::equal(ranks[0].parameters[i], expected[i])) << schedule << ", tensor " << i;
  }
}

// Begins with 0.1, knows nothing before its second look, then chooses; a leap of the gradients
// makes it compress little again.
TEST(DataParallelMenus, AStepSendsLittleOnceGradientsAreSteadyAndMoreWhenTheyLeap) {
  run_ranks(kRanks, [&](Job& job) {
    const Seen seen = train_by_menu(job, {.schedule = "wait_free", .compression = kMenu});
    const auto sent = [&](int step) {
      return seen.reports[static_cast<std::size_t>(step)].wire_bytes;
    };
    EXPECT_EQ(sent(0), 0) << "the first step is not compressed";
    const double at_first = sent(1), at_ease = sent(20);
    EXPECT_EQ(sent(12), at_first) << "until the second look";
    EXPECT_LT(at_ease, at_first / 3);
    EXPECT_EQ(sent(29), at_ease);
    EXPECT_EQ(sent(40), at_first) << "gradients were eight times as large at the look before";
    EXPECT_EQ(sent(59), at_ease);
    EXPECT_EQ(seen.reports.back().looks, (kStepsOfMenus - 1) / 6);
    EXPECT_EQ(seen.reports.back().coded_bytes, 4 * (160 * 128 + 200 * 100));
  });
}

TEST(DataParallelMenus, OfWhatCannotBeChosenFromAreRefusedBeforeTheFirstStep) {
  run_ranks(kRanks, [&](Job& job) {
    const auto told = [&](const std::string& compression) {
      return misuse_of(
          [&] { DataParallel(three_parameters(), job, {.compression = compression}); });
    };
    EXPECT_THAT(told("dgc:ratio=0.1/0.01"), HasSubstr("ratio of dgc has one value"));
    EXPECT_THAT(told("top_k:ratio=0.1/7"), HasSubstr("ratio of top_k is a number"));
    EXPECT_THAT(told("top_k:choose_every=5"), HasSubstr("no setting has several values"));
  });
}

}  // namespace
}  // namespace paceline
