#include "paceline/torch/optimizers/lars.h"

#include <sstream>

#include "tests/torch/optimizers/problems.h"

namespace paceline::optimizers {
namespace {

// LARS and LAMB have the same laws; each test asks both.
template <typename Kind>
struct Large;
template <>
struct Large<LARS> {
  using Options = LARSOptions;
  static Options flat(double lr) { return Options(lr).adapt_vectors(true); }
  static Options scale_free(double lr) { return flat(lr).weight_decay(0); }
};
template <>
struct Large<LAMB> {
  using Options = LAMBOptions;
  static Options flat(double lr) { return Options(lr).adapt_vectors(true); }
  static Options scale_free(double lr) { return flat(lr).eps(1e-15); }
};

template <typename Kind>
class LargeBatch : public testing::Test {};
using LargeBatchKinds = testing::Types<LARS, LAMB>;
TYPED_TEST_SUITE(LargeBatch, LargeBatchKinds);

at::Tensor random_vector(std::int64_t size, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn({size}, generator, at::TensorOptions().dtype(at::kDouble));
}

// Steps with gradients of fixed seeds, times `scale`.
void step_by_random_gradients(torch::optim::Optimizer& optimizer, std::int64_t size, int steps,
                              double scale, const std::function<void(const at::Tensor&)>& give) {
  for (int k = 0; k < steps; ++k) {
    give(random_vector(size, 100 + static_cast<std::uint64_t>(k)) * scale);
    optimizer.step();
  }
}

// The end of 50 steps with a rate that falls in the middle; the expected ones are those of an oracle
// (docs/acceptance.md).
template <typename Kind>
at::Tensor of_the_model(double rate) {
  at::Tensor w = at::tensor({1., .5, 0., -.5}, at::kDouble);
  Kind optimizer({w}, Large<Kind>::flat(rate));
  for (int k = 1; k <= 50; ++k) {
    if (k == 26) optimizer.param_groups()[0].options().set_lr(0.3 * rate);
    w.mutable_grad() = at::sin(0.37 * k * at::arange(1, 5, at::kDouble)) + 0.2 * w;
    optimizer.step();
  }
  return w;
}

TEST(LARS, MovesAsTheSpecificationsModelDoes) {
  EXPECT_LE(
      difference(of_the_model<LARS>(0.1), at::tensor({0.9914539206351732, 0.49720165066925887,
                                                      -0.0013280885052546602, -0.4976084850831425},
                                                     at::kDouble)),
      1e-13);
}

TEST(LAMB, MovesAsTheSpecificationsModelDoes) {
  EXPECT_LE(
      difference(of_the_model<LAMB>(0.02), at::tensor({0.6898261040512438, 0.27033314321246127,
                                                       -0.06182682625433146, -0.367971978427273},
                                                      at::kDouble)),
      1e-13);
}

TYPED_TEST(LargeBatch, TheScaleOfTheGradientDoesNotMatter) {
  std::vector<at::Tensor> ends;
  for (const double scale : {1.0, 1e3}) {
    at::Tensor w = random_vector(7, 1);
    TypeParam optimizer({w}, Large<TypeParam>::scale_free(0.1));
    step_by_random_gradients(optimizer, 7, 60, scale,
                             [&](const at::Tensor& g) { w.mutable_grad() = g; });
    ends.push_back(w);
  }
  EXPECT_LE(difference(ends[1], ends[0]), 1e-10);
}

TYPED_TEST(LargeBatch, TheFirstStepIsTheSameShareOfEachTensor) {
  for (const double size : {1.0, 1e-3}) {
    at::Tensor w = random_vector(7, 1) * size;
    const at::Tensor before = w.clone();
    TypeParam optimizer({w}, Large<TypeParam>::scale_free(0.1));
    w.mutable_grad() = random_vector(7, 2);
    optimizer.step();
    const double share = ((w - before).norm() / before.norm()).template item<double>();
    EXPECT_NEAR(share, (std::is_same_v<TypeParam, LARS>) ? 1e-4 : 0.1, 1e-13);
  }
}

TYPED_TEST(LargeBatch, ShardsWithSummedNormsMoveAsTheWholeDoes) {
  constexpr std::int64_t kSize = 11;
  at::Tensor whole = random_vector(kSize, 1);
  const at::Tensor start = whole.clone();
  TypeParam optimizer({whole}, Large<TypeParam>::flat(0.1));
  step_by_random_gradients(optimizer, kSize, 50, 1,
                           [&](const at::Tensor& g) { whole.mutable_grad() = g; });
  std::vector<at::Tensor> summed(3), own(3);
  run_ranks(3, [&](Job& job) {
    const auto rank = static_cast<std::size_t>(job.rank());
    const auto part = [&](const at::Tensor& t) { return t.chunk(3)[rank].clone(); };
    const auto sum = [&](std::span<double> values) {
      job.world().all_reduce(buffer_of(values)).wait();
    };
    for (const bool sums : {true, false}) {
      at::Tensor shard = part(start);
      TypeParam mine({shard}, Large<TypeParam>::flat(0.1), sums ? SumOverShards(sum) : nullptr);
      step_by_random_gradients(mine, kSize, 50, 1,
                               [&](const at::Tensor& g) { shard.mutable_grad() = part(g); });
      (sums ? summed : own)[rank] = shard;
    }
  });
  EXPECT_LE(difference(at::cat(summed), whole), 1e-12);
  EXPECT_GT(difference(at::cat(own), whole), 1e-5);  // norms of shards alone: another method
}

TYPED_TEST(LargeBatch, ZeroNormsMeanARatioOfOne) {
  at::Tensor zero = at::zeros({3}, at::kDouble), w = random_vector(3, 1);
  const at::Tensor before = w.clone(), g = random_vector(3, 2);
  TypeParam optimizer({zero, w}, Large<TypeParam>::flat(0.1).weight_decay(0));
  zero.mutable_grad() = g;
  w.mutable_grad() = at::zeros({3}, at::kDouble);
  optimizer.step();
  EXPECT_TRUE(w.equal(before));
  const at::Tensor expected =
      std::is_same_v<TypeParam, LARS> ? -0.1 * g : -0.1 * g / (g.abs() + 1e-6);
  EXPECT_LE(difference(zero, expected), 1e-12);
}

TYPED_TEST(LargeBatch, BiasesAndNormsAreNeitherAdaptedNorDecayed) {
  at::Tensor bias = random_vector(3, 1), matrix = random_vector(6, 2).view({2, 3});
  const at::Tensor bias_before = bias.clone(), g = random_vector(3, 3);
  TypeParam optimizer({bias, matrix}, typename Large<TypeParam>::Options(0.1).weight_decay(0.5));
  bias.mutable_grad() = g;
  matrix.mutable_grad() = at::zeros({2, 3}, at::kDouble);
  const double before = matrix.norm().template item<double>();
  optimizer.step();
  const at::Tensor expected =
      bias_before - 0.1 * (std::is_same_v<TypeParam, LARS> ? g : g / (g.abs() + 1e-6));
  EXPECT_LE(difference(bias, expected), 1e-12);
  EXPECT_LT(matrix.norm().template item<double>(), before);
}

TYPED_TEST(LargeBatch, GoesOnFromTorchsArchivesWithTheSameBits) {
  const auto run = [](at::Tensor& w, TypeParam& optimizer, int first, int last) {
    for (int k = first; k < last; ++k) {
      w.mutable_grad() = random_vector(6, 50 + static_cast<std::uint64_t>(k)).view({2, 3});
      optimizer.step();
    }
  };
  at::Tensor whole = random_vector(6, 1).view({2, 3}), parted = whole.clone();
  TypeParam one({whole}, typename Large<TypeParam>::Options(0.1)),
      first({parted}, typename Large<TypeParam>::Options(0.1));
  run(whole, one, 0, 8);
  run(parted, first, 0, 4);
  std::stringstream archive;
  torch::save(first, archive);
  TypeParam second({parted}, typename Large<TypeParam>::Options(0.7));
  torch::load(second, archive);
  run(parted, second, 4, 8);
  EXPECT_TRUE(parted.equal(whole));
}

// --- under `synchronous`, together with torch's own -------------------------------------------

template <typename Kind, typename Options>
void expect_ranks_equal_one_process(const Options& options) {
  constexpr int kSteps = 15, kBatch = 12;
  Net alone;
  Kind optimizer(alone.parameters(), options);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    loss_of(alone, samples(step, kBatch), true).backward();
    optimizer.step();
  }
  for (const int ranks : {2, 3}) {
    run_ranks(ranks, [&](Job& job) {
      auto net = std::make_shared<Net>();
      Kind own(net->parameters(), options);
      DataParallel parallel(net, job, kSmallBuckets);
      // Uneven parts.
      const int begin = job.rank() == 0 ? 0 : kBatch * job.rank() / ranks + 1,
                end = job.rank() + 1 == ranks ? kBatch : kBatch * (job.rank() + 1) / ranks + 1;
      for (int step = 0; step < kSteps; ++step) {
        own.zero_grad();
        parallel.weight(end - begin);
        loss_of(*net, samples(step, kBatch).rows(begin, end), true).backward();
        parallel.step(own);
      }
      expect_equal(net->parameters(), alone.parameters(), 1e-10);
    });
  }
}

TEST(OptimizersUnderSynchronous, GiveTheNumbersOfOneProcess) {
  namespace torch_optim = torch::optim;
  expect_ranks_equal_one_process<torch_optim::Adam>(torch_optim::AdamOptions(0.01));
  expect_ranks_equal_one_process<torch_optim::AdamW>(torch_optim::AdamWOptions(0.01));
  expect_ranks_equal_one_process<torch_optim::Adagrad>(torch_optim::AdagradOptions(0.05));
  expect_ranks_equal_one_process<torch_optim::RMSprop>(
      torch_optim::RMSpropOptions(0.01).momentum(0.9));
  expect_ranks_equal_one_process<LARS>(LARSOptions(1));
  expect_ranks_equal_one_process<LAMB>(LAMBOptions(0.02));
}

}  // namespace
}  // namespace paceline::optimizers
