// Models of 16-bit types.
#include "tests/support/extremes.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  if (a.size() != b.size()) return INFINITY;
  double furthest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    furthest = test::larger(furthest, difference(a[i].to(at::kDouble), b[i].to(at::kDouble)));
  return furthest;
}

// Each rank's gradients are the same on every run, so the mean is known. Sums are made in f32: the
// mean is rounded once to 8 bits, and where ranks weigh differently the weighted gradients are
// before.
TEST(DataParallel, Bfloat16GradientsAreAveragedWithinTheRoundingsOfTheWire) {
  constexpr int kRanks = 4;
  const std::vector<double> weights{1, 2, 0, 5};
  std::vector<std::vector<at::Tensor>> local;
  for (int r = 0; r < kRanks; ++r) {
    Net net(at::kBFloat16);
    loss_of(net, samples(r, 3)).backward();
    local.push_back(grads_of(net));
  }
  for (const bool weighted : {false, true}) {
    SameEverywhere same;
    run_ranks(kRanks, [&](Job& job) {
      Net net(at::kBFloat16);
      DataParallel parallel(net, job, kSmallBuckets);
      for (int step = 0; step < 3; ++step) {
        net.zero_grad();
        if (weighted) parallel.weight(weights[static_cast<std::size_t>(job.rank())]);
        loss_of(net, samples(job.rank(), 3)).backward();
        parallel.synchronize();
        const auto grads = grads_of(net);
        for (std::size_t i = 0; i < grads.size(); ++i) {
          if (!grads[i].defined()) continue;
          ASSERT_EQ(grads[i].scalar_type(), at::kBFloat16);
          at::Tensor mean = at::zeros(grads[i].sizes(), at::kDouble), magnitude = mean.clone();
          for (std::size_t r = 0; r < kRanks; ++r) {
            const at::Tensor part =
                local[r][i].to(at::kDouble) * (weighted ? weights[r] / 8 : 0.25);
            mean += part;
            magnitude += part.abs();
          }
          const at::Tensor error = (grads[i].to(at::kDouble) - mean).abs();
          EXPECT_TRUE((error <= (magnitude * (weighted ? 1 : 0) + mean.abs()) * (1.0 / 256 + 1e-5) +
                                    magnitude * 1e-6)
                          .all()
                          .item<bool>())
              << "tensor " << i;
        }
        same.tell("gradients", grads);
      }
    });
  }
}

TEST(DataParallel, TrainsBfloat16ModelsCloseToOneProcess) {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    Net one(type);
    auto optimizer_of_one = sgd(one);
    for (int step = 0; step < 20; ++step) {
      optimizer_of_one.zero_grad();
      loss_of(one, samples(step, 8)).backward();
      optimizer_of_one.step();
    }
    SameEverywhere same;
    run_ranks(2, [&](Job& job) {
      Net net(type);
      DataParallel parallel(net, job, kSmallBuckets);
      auto optimizer = sgd(net);
      for (int step = 0; step < 20; ++step) {
        optimizer.zero_grad();
        loss_of(net, samples(step, 8).rows(4 * job.rank(), 4 * job.rank() + 4)).backward();
        parallel.step(optimizer);
      }
      EXPECT_LE(distance(net.parameters(), one.parameters()), type == at::kFloat ? 1e-5 : 2e-2);
      same.tell("parameters", net.parameters());
    });
  }
}

}  // namespace
}  // namespace paceline
