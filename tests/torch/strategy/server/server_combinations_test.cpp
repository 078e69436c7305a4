// Parameters on servers beside other features: rows of docs/guide/combinations.md. What holds under
// bsp is compared with synchronous training.

#include "paceline/core/server/server.h"
#include "paceline/torch/norm/norm.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

using torch::optim::SGD;

// Trains on two ranks, with servers unless the synchrony is synchronous; returns the parameters.
template <typename MakeNet, typename Step>
at::Tensor trained(const std::string& synchrony, const MakeNet& make_net, const Step& step) {
  std::vector<at::Tensor> ends(2);
  run_ranks(2, {.servers = synchrony == "synchronous" ? 0 : 1}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    auto net = make_net();
    DataParallel parallel(*net, job, {.synchrony = synchrony, .buffers = BufferMode::off});
    SGD optimizer(net->parameters(), 0.1);
    for (int k = 0; k < 6; ++k) {
      optimizer.zero_grad();
      step(*net, parallel, optimizer, 100 * job.rank() + 2 * k);
    }
    ends[static_cast<std::size_t>(job.rank())] = flat(*net);
  });
  EXPECT_TRUE(ends[0].equal(ends[1])) << synchrony;
  return ends[0];
}

const auto kMlp = [] { return std::make_unique<TaskNet>("mlp"); };

TEST(ServerCombinations, GradientsAccumulateOverBackwardPasses) {
  const auto step = [](TaskNet& net, DataParallel& parallel, SGD& optimizer, int batch) {
    {
      const auto pause = parallel.no_sync();
      net.loss(samples(batch, 3)).backward();
    }
    net.loss(samples(batch + 1, 4)).backward();
    EXPECT_TRUE(parallel.step(optimizer));
  };
  EXPECT_LE(difference(trained("bsp", kMlp, step), trained("synchronous", kMlp, step)), 1e-12);
}

TEST(ServerCombinations, LossesHaveOneMeanWhereRanksMakeEqualSteps) {
  SameEverywhere same;
  for (const char* synchrony : {"bsp", "ssp:staleness=0"}) {
    trained(synchrony, kMlp, [&](TaskNet& net, DataParallel& parallel, SGD& optimizer, int batch) {
      const at::Tensor loss = net.loss(samples(batch, 3));
      loss.backward();
      same.tell(c10::str(synchrony, " ", batch % 100), {parallel.mean(loss)});
      EXPECT_TRUE(parallel.step(optimizer));
    });
  }
}

TEST(ServerCombinations, EachRankClipsItsOwnGradientBeforeTheStep) {
  trained("bsp", kMlp, [](TaskNet& net, DataParallel& parallel, SGD& optimizer, int batch) {
    net.loss(samples(batch, 4)).backward();
    const double norm = flat_gradient(net).norm().item<double>();
    EXPECT_NEAR(parallel.clip_grad_norm(norm / 2), norm, 1e-12);
    EXPECT_NEAR(flat_gradient(net).norm().item<double>(), norm / 2, 1e-5);
    EXPECT_TRUE(parallel.step(optimizer));
  });
}

TEST(ServerCombinations, SyncBatchNormComputesOverAllRanksUnderBsp) {
  const auto make = [] {
    auto net = std::make_unique<nn::SequentialImpl>(SyncBatchNorm(6), nn::Linear(6, 3));
    net->to(at::kDouble);
    at::Generator generator = at::detail::createCPUGenerator(5);
    const at::NoGradGuard no_grad;
    for (auto& one : net->parameters()) one.copy_(at::randn(one.sizes(), generator, one.options()));
    return net;
  };
  const auto step = [](nn::SequentialImpl& net, DataParallel& parallel, SGD& optimizer, int batch) {
    const Samples own = samples(batch, 4);
    at::mse_loss(net.forward(own.x), own.y).backward();
    EXPECT_TRUE(parallel.step(optimizer));
  };
  EXPECT_LE(difference(trained("bsp", make, step), trained("synchronous", make, step)), 1e-10);
  run_ranks(2, {.servers = 1}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    const auto net = make();
    EXPECT_THAT(misuse_of([&] { DataParallel parallel(*net, job, {.synchrony = "asp"}); }),
                HasSubstr("SyncBatchNorm"));
  });
}

}  // namespace
}  // namespace paceline
