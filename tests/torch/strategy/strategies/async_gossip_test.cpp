// Asynchronous gossip (docs/strategies/async_gossip.md).
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// Mixing keeps the sum of all replicas: their mean is the start plus the mean of all updates.
TEST(AsyncGossip, KeepsTheSumOfAllReplicasAndOfWhatTheirOptimizersChanged) {
  for (const int ranks : {1, 2, 4}) {
    const double rate = 0.05;
    std::mutex mutex;
    at::Tensor expected = flat(TaskNet("mlp"));
    std::vector<at::Tensor> consensus(SerialWorld::at(ranks));
    run_ranks(ranks, [&](Job& job) {
      TaskNet net("mlp");
      DataParallel parallel(net, job, {.synchrony = "async_gossip"});
      torch::optim::SGD optimizer(net.parameters(), rate);
      at::Tensor changed = at::zeros_like(flat(net));
      // Ranks make different numbers of steps: nobody waits.
      for (int k = 0; k < 40 + 10 * job.rank(); ++k) {
        net.zero_grad();
        net.loss(samples(100 * job.rank() + k, 4)).backward();
        changed -= rate * flat_gradient(net);
        parallel.step(optimizer);
      }
      const auto shared = parallel.consensus();
      consensus[SerialWorld::at(job.rank())] = flat(net);
      const std::lock_guard lock(mutex);
      expected += changed / ranks;
    });
    for (const at::Tensor& one : consensus) {
      EXPECT_TRUE(one.equal(consensus[0]));
      EXPECT_LE(difference(one, expected), 1e-12) << ranks;
    }
  }
}

TEST(AsyncGossip, BringsReplicasOfUnequalQuadraticsNearTheirCommonOptimum) {
  const double b[] = {-1, 0.5, 2, 0.9};
  run_ranks(4, [&](Job& job) {
    at::Tensor x = at::zeros({1}, at::kDouble).requires_grad_();
    DataParallel parallel(std::vector<replica::Parameter>{{"x", x}}, job,
                          {.synchrony = "async_gossip"});
    torch::optim::SGD optimizer({x}, 0.02);
    for (int k = 0; k < 1500; ++k) {
      // A rank that is ahead would pull the others towards its own optimum.
      if (k % 5 == 0) job.world().barrier().wait();
      optimizer.zero_grad();
      ((x - b[job.rank()]).square().sum() / 2).backward();
      parallel.step(optimizer);
    }
    const auto shared = parallel.consensus();
    EXPECT_NEAR(x.item<double>(), 0.6, 0.1);
  });
}

TEST(AsyncGossip, RefusesWhatWouldMakeRanksWaitForEachOther) {
  const auto refusal = [](int ranks, const std::function<void(Job&)>& body) -> std::string {
    try {
      run_ranks(ranks, body);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(refusal(3,
                      [](Job& job) {
                        TaskNet net("linear");
                        DataParallel parallel(net, job, {.synchrony = "async_gossip"});
                      }),
              HasSubstr("odd"));
  EXPECT_THAT(refusal(2,
                      [](Job& job) {
                        TaskNet net("linear");
                        DataParallel parallel(net, job, {.synchrony = "async_gossip"});
                        torch::optim::SGD optimizer(net.parameters(), 0.1);
                        parallel.weight(0);
                        parallel.step(optimizer);
                      }),
              HasSubstr("weight(0)"));
  EXPECT_THAT(refusal(2,
                      [](Job& job) {
                        nn::Sequential net(nn::Linear(6, 3), SyncBatchNorm(3));
                        net->to(at::kDouble);
                        DataParallel parallel(net, job, {.synchrony = "async_gossip"});
                      }),
              HasSubstr("SyncBatchNorm"));
}

}  // namespace
}  // namespace paceline
