// Strategies that move parameters beside other features: rows of docs/guide/combinations.md.
#include <optional>

#include "paceline/torch/norm/norm.h"
#include "paceline/torch/strategy/strategy.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

using torch::optim::SGD;

at::Tensor error_of(TaskNet& net, const std::vector<at::Tensor>& part) {
  return net.loss({part[0], part[1]});
}

TEST(StrategiesCombine, WithMirroredReplicasWhichAreEqualAtTheEndOfEachPeriod) {
  Mirrored<TaskNet> mirrored(
      {torch::kCPU, torch::kCPU}, [] { return std::make_shared<TaskNet>("mlp"); },
      [](auto parameters) { return std::make_unique<SGD>(parameters, 0.1); },
      {.parallel = {.synchrony = "local_sgd:period=2"}});
  for (int step = 1; step <= 6; ++step) {
    const Samples batch = samples(step, 7);
    mirrored.step({batch.x, batch.y}, error_of);
    const bool are_equal = flat(mirrored.replica(0)).equal(flat(mirrored.replica(1)));
    EXPECT_EQ(are_equal, step % 2 == 0) << "step " << step;
  }
  EXPECT_EQ(mirrored.parallel(0).last_step().exchange.exchanges, 3);
}

TEST(StrategiesCombine, WithDistributedOptimizerNotAndItNamesTheCallThatDoes) {
  run_ranks(2, [](Job& job) {
    TaskNet net("linear");
    SGD sgd(net.parameters(), 0.1);
    DistributedOptimizer optimizer(sgd, job, {.synchrony = "local_sgd"});
    net.loss(samples(1, 4)).backward();
    EXPECT_THAT(misuse_of([&] { optimizer.step(); }),
                AllOf(HasSubstr("local_sgd"), HasSubstr("step(optimizer)")));
  });
}

// Two batches of a rank in each step, under no_sync() and without it.
TEST(StrategiesCombine, WithAccumulationThatIsTheSameUnderNoSyncAndWithoutIt) {
  const auto trained = [](const std::string& text, bool pauses, int passes) {
    std::vector<at::Tensor> replicas(2);
    run_ranks(2, [&](Job& job) {
      TaskNet net("mlp");
      SGD optimizer(net.parameters(), 0.1);
      DataParallel parallel(net, job, {.synchrony = text, .backward_passes_per_step = passes});
      for (int step = 0; step < 5; ++step) {
        net.zero_grad();
        {
          std::optional<DataParallel::NoSync> pause;
          if (pauses) pause.emplace(parallel.no_sync());
          net.loss(samples(100 * job.rank() + 2 * step, 3)).backward();
        }
        net.loss(samples(100 * job.rank() + 2 * step + 1, 4)).backward();
        parallel.step(optimizer);
      }
      replicas[static_cast<std::size_t>(job.rank())] = flat(net);
    });
    return at::cat(replicas);
  };
  for (const char* text : {"local_sgd:period=2", "elastic:period=2", "admm:period=2", "gossip"}) {
    const at::Tensor plain = trained(text, false, 1);
    EXPECT_TRUE(trained(text, true, 1).equal(plain)) << text;
    EXPECT_TRUE(trained(text, false, 2).equal(plain)) << text;
  }
}

TEST(StrategiesCombine, WithJoinedLoopsWhichEndOnAllRanksWhenNobodyHasABatch) {
  for (const char* text : {"local_sgd:period=2", "adacomm:start=2,interval=2", "block_momentum",
                           "elastic:period=2", "admm:period=2", "gossip", "push_sum", "none"}) {
    SameEverywhere same;
    run_ranks(3, [&](Job& job) {
      TaskNet net("mlp");
      SGD optimizer(net.parameters(), 0.1);
      DataParallel parallel(net, job, {.synchrony = text});
      std::vector<Samples> loader;
      for (int i = 0; i < 2 + 2 * job.rank(); ++i)
        loader.push_back(samples(10 * job.rank() + i, 3));
      int turns = 0;
      for (auto turn : parallel.join(loader)) {
        ++turns;
        net.zero_grad();
        if (turn) {
          const at::Tensor loss = net.loss(*turn);
          loss.backward();
          parallel.loss(loss.item<double>());
        }
        parallel.step(optimizer);
      }
      EXPECT_EQ(turns, 7) << text << ": six batches of the last rank, and the turn that ends it";
      const auto shared = parallel.consensus();
      same.tell(text, net.parameters());
    });
  }
}

// Statistics are those of all ranks' rows; this layer is the first, so replicas that differ feed it
// alike.
TEST(StrategiesCombine, WithSyncBatchNormWhichComputesOverAllRanksInEachStep) {
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    nn::Sequential net(SyncBatchNorm(6), nn::Linear(6, 3));
    net->to(at::kDouble);
    DataParallel parallel(net, job,
                          {.synchrony = "local_sgd:period=4", .buffers = BufferMode::off});
    SGD optimizer(net->parameters(), 0.1);
    for (int step = 0; step < 6; ++step) {
      const Samples own = samples(100 * job.rank() + step, 3 + job.rank());
      parallel.weight(static_cast<double>(own.x.size(0)));
      net->zero_grad();
      at::mse_loss(net->forward(own.x), own.y).backward();
      parallel.step(optimizer);
      std::vector<at::Tensor> statistics;
      for (const at::Tensor& buffer : net->buffers())
        if (buffer.is_floating_point()) statistics.push_back(buffer);
      EXPECT_GE(statistics.size(), 2u);
      same.tell(c10::str("statistics of step ", step), statistics);
    }
  });
}

TEST(StrategiesCombine, WithClippingOfEachRanksOwnGradientBeforeTheStep) {
  run_ranks(2, [](Job& job) {
    TaskNet net("mlp");
    SGD optimizer(net.parameters(), 0.1);
    DataParallel parallel(net, job, {.synchrony = "local_sgd"});
    net.loss(samples(job.rank(), 4)).backward();
    const double norm = flat_gradient(net).norm().item<double>();
    EXPECT_NEAR(parallel.clip_grad_norm(norm / 2), norm, 1e-12);
    EXPECT_NEAR(flat_gradient(net).norm().item<double>(), norm / 2, 1e-5);
    EXPECT_TRUE(parallel.step(optimizer));
  });
}

}  // namespace
}  // namespace paceline
