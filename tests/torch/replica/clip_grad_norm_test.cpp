// Clipping by the global norm, against libtorch's and against one process.
#include "paceline/torch/replica/clip_grad_norm.h"

#include <cmath>
#include <limits>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ClipGradNorm, EqualsLibtorchsForEveryNorm) {
  for (const double p : {1.0, 2.0, 3.5, kInfinity}) {
    for (const double max_norm : {1e-3, 1e3}) {
      Net ours, theirs;
      for (Net* net : {&ours, &theirs}) loss_of(*net, samples(0, 8)).backward();
      const double norm = clip_grad_norm(ours.parameters(), max_norm, {.norm_type = p});
      EXPECT_NEAR(norm, nn::utils::clip_grad_norm_(theirs.parameters(), max_norm, p), 1e-12 * norm);
      expect_equal(grads_of(ours), grads_of(theirs), 1e-12);
    }
  }
}

TEST(ClipGradNorm, DoesNotDependOnTheNumberOfThreads) {
  const int before = at::get_num_threads();
  std::vector<double> norms;
  for (const int threads : {1, 4}) {
    at::set_num_threads(threads);
    const at::Tensor parameter = at::zeros({100003}).set_requires_grad(true);
    parameter.mutable_grad() =
        at::randn({100003}, at::detail::createCPUGenerator(3), at::TensorOptions());
    norms.push_back(clip_grad_norm({parameter}, 1));
    EXPECT_NEAR(parameter.grad().norm().item<double>(), 1, 1e-4);
  }
  at::set_num_threads(before);
  EXPECT_EQ(norms[0], norms[1]);
}

TEST(ClipGradNorm, AfterSynchronizeEqualsOneProcessThatClipsTheGlobalBatch) {
  Net one;
  auto optimizer_of_one = sgd(one);
  double half = 0;
  for (int step = 0; step < 4; ++step) {
    optimizer_of_one.zero_grad();
    loss_of(one, samples(step, 8)).backward();
    if (step == 0) half = clip_grad_norm(one.parameters(), kInfinity) / 2;
    nn::utils::clip_grad_norm_(one.parameters(), half);
    optimizer_of_one.step();
  }
  SameEverywhere same;
  run_ranks(3, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    auto optimizer = sgd(net);
    const std::vector<std::int64_t> edges{0, 1, 3, 8};
    const auto begin = edges[static_cast<std::size_t>(job.rank())],
               end = edges[static_cast<std::size_t>(job.rank()) + 1];
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      parallel.weight(static_cast<double>(end - begin));
      loss_of(net, samples(step, 8).rows(begin, end)).backward();
      EXPECT_THAT(misuse_of([&] { parallel.clip_grad_norm(half); }),
                  HasSubstr("synchronize() first"));
      parallel.synchronize();
      const double norm = parallel.clip_grad_norm(half);
      if (step == 0) {
        EXPECT_NEAR(norm, 2 * half, 1e-12 * norm);
      }
      same.tell(c10::str("norm of step ", step), {at::full({}, norm, at::kDouble)});
      optimizer.step();
    }
    expect_equal(net.parameters(), one.parameters(), 1e-12);
    same.tell("parameters", net.parameters());
  });
}

TEST(ClipGradNorm, CountsTheRowsOfSparseGradientsOnce) {
  nn::Embedding sparse(nn::EmbeddingOptions(10, 4).sparse(true)),
      dense(nn::EmbeddingOptions(10, 4));
  dense->weight.set_data(sparse->weight.detach().clone());
  for (auto* table : {&sparse, &dense})
    (*table)->forward(torch::tensor({1, 2, 1, 1})).square().sum().backward();
  EXPECT_NEAR(clip_grad_norm({sparse->weight}, 0.1), clip_grad_norm({dense->weight}, 0.1), 1e-6);
  EXPECT_LE(difference(sparse->weight.grad().to_dense(), dense->weight.grad()), 1e-6);
}

TEST(ClipGradNorm, RefusesWhatIsNoNorm) {
  Net net;
  EXPECT_EQ(clip_grad_norm(net.parameters(), 1), 0) << "no gradient at all";
  loss_of(net, samples(0, 4)).backward();
  net.last->bias.mutable_grad().fill_(NAN);
  const at::Tensor before = net.first->weight.grad().clone();
  EXPECT_THAT(misuse_of([&] { clip_grad_norm(net.parameters(), 1); }),
              HasSubstr("norm of the gradients is nan"));
  EXPECT_TRUE(std::isnan(
      clip_grad_norm(net.parameters(), 1, {.norm_type = kInfinity, .refuse_non_finite = false})));
  EXPECT_TRUE(at::equal(net.first->weight.grad(), before));
  EXPECT_THAT(misuse_of([&] { clip_grad_norm(net.parameters(), -1); }),
              HasSubstr("must not be negative"));
}

}  // namespace
}  // namespace paceline
