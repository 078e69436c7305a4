// DataParallel in fp64 against one process that computes on the global batch.
#include <utility>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

enum class Zero { drop, in_place, never };

// Trains on uneven parts of global batches: rank r has r + 1 rows of them, the last rank the rest.
void train_and_compare(int ranks, Zero zero) {
  constexpr int kSteps = 6;
  constexpr std::int64_t kRows = 14;
  Net one;
  auto optimizer_of_one = sgd(one);
  std::vector<std::vector<at::Tensor>> expected;
  const auto clear = [&](Net& net, torch::optim::Optimizer& optimizer) {
    if (zero == Zero::drop) optimizer.zero_grad();
    if (zero == Zero::in_place) net.zero_grad(false);
  };
  for (int step = 0; step < kSteps; ++step) {
    clear(one, optimizer_of_one);
    loss_of(one, samples(step, kRows)).backward();
    expected.push_back(grads_of(one));
    optimizer_of_one.step();
  }
  SameEverywhere same;
  run_ranks(ranks, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    auto optimizer = sgd(net);
    const std::int64_t begin = job.rank() * (job.rank() + 1) / 2;
    const std::int64_t end = job.rank() + 1 == ranks ? kRows : begin + job.rank() + 1;
    for (int step = 0; step < kSteps; ++step) {
      clear(net, optimizer);
      parallel.weight(static_cast<double>(end - begin));
      loss_of(net, samples(step, kRows).rows(begin, end)).backward();
      ASSERT_TRUE(parallel.synchronize());
      EXPECT_EQ(parallel.last_step().total_weight, kRows);
      expect_equal(grads_of(net), expected[static_cast<std::size_t>(step)], 1e-12);
      same.tell(c10::str("gradients of step ", step), grads_of(net));
      optimizer.step();
      same.tell(c10::str("parameters of step ", step), net.parameters());
    }
    expect_equal(net.parameters(), one.parameters(), 1e-12);
  });
}

TEST(DataParallel, UnevenBatchesEqualOneProcessWhenGradientsAreDropped) {
  for (int ranks : {2, 3, 4}) train_and_compare(ranks, Zero::drop);
}
TEST(DataParallel, UnevenBatchesEqualOneProcessWhenGradientsAreZeroedInPlace) {
  for (int ranks : {2, 3}) train_and_compare(ranks, Zero::in_place);
}
TEST(DataParallel, UnevenBatchesEqualOneProcessWhenGradientsAccumulate) {
  for (int ranks : {2, 3}) train_and_compare(ranks, Zero::never);
}

TEST(DataParallel, AWorldOfOneHasThePlainLoopsBits) {
  for (const Zero zero : {Zero::drop, Zero::in_place, Zero::never}) {
    Net plain(at::kFloat), net(at::kFloat);
    auto a = sgd(plain), b = sgd(net);
    run_ranks(1, [&](Job& job) {
      DataParallel parallel(net, job);
      for (int step = 0; step < 5; ++step) {
        parallel.weight(7);
        for (auto [module, optimizer] : {std::pair{&plain, &a}, std::pair{&net, &b}}) {
          if (zero == Zero::drop) optimizer->zero_grad();
          if (zero == Zero::in_place) module->zero_grad(false);
          loss_of(*module, samples(step, 7)).backward();
        }
        a.step();
        EXPECT_TRUE(parallel.step(b));
      }
      EXPECT_EQ(parallel.last_step().total_weight, 7);
    });
    EXPECT_EQ(sha256_of(plain.parameters()), sha256_of(net.parameters()));
  }
}

TEST(DataParallel, WithoutWeightsAllRanksWeighTheSame) {
  Net one;
  loss_of(one, samples(0, 8)).backward();
  run_ranks(4, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    loss_of(net, samples(0, 8).rows(2 * job.rank(), 2 * job.rank() + 2)).backward();
    EXPECT_TRUE(parallel.synchronize());
    expect_equal(grads_of(net), grads_of(one), 1e-12);
  });
}

TEST(DataParallel, StartsWithRank0sParametersAndBuffers) {
  SameEverywhere same;
  run_ranks(3, [&](Job& job) {
    nn::Sequential model(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 2));
    const at::NoGradGuard no_grad;
    for (auto& p : model->parameters()) p.fill_(job.rank() + 1);
    for (auto& b : model->buffers()) b.fill_(job.rank() + 1);
    model->parameters()[0].set_requires_grad(false);
    DataParallel parallel(model, job);
    for (const auto& tensor : model->parameters()) EXPECT_TRUE(tensor.eq(1).all().item<bool>());
    for (const auto& tensor : model->buffers()) EXPECT_TRUE(tensor.eq(1).all().item<bool>());
    same.tell("parameters", model->parameters());
  });
}

TEST(DataParallel, SeveralDtypesAndOddParametersTrainTogether) {
  struct Mixed : nn::Module {
    Mixed() {
      a = register_parameter("a", at::ones({3}, at::kFloat));
      b = register_parameter("b", at::ones({3}, at::kDouble));
      empty = register_parameter("empty", at::ones({0}, at::kDouble));
      twice = register_parameter("twice", at::ones({3}, at::kFloat));
      register_parameter("twice_again", twice);
      layout = register_parameter(
          "layout", at::ones({2, 3, 4, 4}, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast));
      scalar = register_parameter("scalar", at::ones({}, at::kDouble));
    }
    at::Tensor a, b, empty, twice, layout, scalar;
  };
  run_ranks(2, [&](Job& job) {
    Mixed net;
    DataParallel parallel(net, job);
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      const double f = job.rank() == 0 ? 1 : 3;
      const at::Tensor pattern = at::arange(96, at::kDouble).view({2, 3, 4, 4});
      ((net.a + net.twice * net.twice).sum() * f + (net.b * f).sum() + net.empty.sum() +
       (net.layout * pattern).sum() * f + net.scalar * f)
          .backward();
      parallel.synchronize();
      EXPECT_TRUE(net.a.grad().eq(2).all().item<bool>());
      EXPECT_TRUE(net.twice.grad().eq(4).all().item<bool>());
      EXPECT_TRUE(net.b.grad().eq(2).all().item<bool>());
      EXPECT_TRUE(at::equal(net.layout.grad(), pattern * 2));
      EXPECT_EQ(net.layout.grad().strides(), net.layout.strides());
      EXPECT_EQ(net.scalar.grad().item<double>(), 2);
      EXPECT_EQ(net.a.grad().scalar_type(), at::kFloat);
      EXPECT_EQ(parallel.buckets().size(), 2u);
    }
  });
}

// Every layer is as wide as the batch is long, so all allocations of a step are as long as a
// gradient, and only learning tells those apart that become gradients; a hook also keeps gradients
// that it was given.
TEST(DataParallel, GradientsBornInPlaceEqualCopiedOnesBitForBitAndKeptOnesStay) {
  constexpr std::int64_t kWide = 8;
  const auto train = [=](Job& job, bool born) {
    nn::Sequential net(nn::Linear(kWide, kWide), nn::Tanh(), nn::Linear(kWide, kWide), nn::Tanh(),
                       nn::Linear(kWide, kWide));
    net->to(at::kDouble);
    at::Generator generator = at::detail::createCPUGenerator(5);
    {
      const at::NoGradGuard no_grad;
      for (auto& p : net->parameters())
        p.copy_(at::randn(p.sizes(), generator, at::TensorOptions().dtype(at::kDouble)));
    }
    std::vector<at::Tensor> kept, as_seen;
    net->parameters()[2].register_hook([&](const at::Tensor& gradient) {
      kept.push_back(kept.size() % 2 == 0 ? gradient : gradient.detach());
      as_seen.push_back(gradient.clone());
    });
    DataParallel parallel(
        net, job, {.first_bucket_bytes = 600, .bucket_bytes = 1200, .compute_in_place = born});
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
    for (int step = 0; step < 8; ++step) {
      const at::Tensor x = at::randn(
          {kWide, kWide},
          at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + job.rank())),
          at::TensorOptions().dtype(at::kDouble));
      if (step != 4) optimizer.zero_grad();  // once it accumulates
      parallel.weight(step < 6 ? 3 : job.rank() + 1);
      net->forward(x).square().mean().backward();
      parallel.step(optimizer);
    }
    EXPECT_EQ(parallel.last_step().copied, born ? 1 : 6) << "all but that which is kept";
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(at::equal(kept[i], as_seen[i])) << "step " << i;
    return sha256_of(net->parameters());
  };
  run_ranks(2, [&](Job& job) { EXPECT_EQ(train(job, true), train(job, false)); });
}

TEST(DataParallel, TheModelOutlivesItAndItsGradientsStay) {
  Net net;
  std::vector<at::Tensor> expected;
  run_ranks(2, [&](Job& job) {
    Net own;
    Net& mine = job.rank() == 0 ? net : own;
    {
      DataParallel parallel(mine, job);
      loss_of(mine, samples(0, 4)).backward();
      parallel.synchronize();
      if (job.rank() == 0) expected = grads_of(net);
    }
    loss_of(mine, samples(1, 4)).backward();  // no hook is left
  });
  loss_of(net, samples(2, 4)).backward();
  Net plain;
  for (int step : {0, 1, 2}) loss_of(plain, samples(step, 4)).backward();
  expect_equal(grads_of(net), grads_of(plain), 1e-12);
}

TEST(DataParallel, MeanWeighsANumberAsTheGradientsAreWithTheSameBitsOnAllRanks) {
  SameEverywhere same;
  Net one;
  const Samples batch = samples(0, 12);
  const double expected = loss_of(one, batch).item<double>();
  run_ranks(3, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    const std::int64_t ends[] = {0, 7, 7, 12};  // rank 1 has no batch
    const std::int64_t begin = ends[job.rank()], end = ends[job.rank() + 1];
    parallel.weight(static_cast<double>(end - begin));
    at::Tensor loss;
    if (begin < end) {
      loss = loss_of(net, batch.rows(begin, end));
      loss.backward();
    }
    const at::Tensor within = parallel.mean(loss);  // while gradients travel
    parallel.synchronize();
    const at::Tensor after = parallel.mean(loss);
    EXPECT_NEAR(within.item<double>(), expected, 1e-14);
    EXPECT_TRUE(after.equal(within));
    same.tell("mean", {within});

    parallel.weight(1);
    EXPECT_EQ(parallel.mean(at::tensor(float(job.rank()))).item<double>(), 1);
    EXPECT_THAT(misuse_of([&] { parallel.mean(at::zeros({2})); }), HasSubstr("f32[2]"));
    EXPECT_THAT(misuse_of([&] { parallel.mean({}); }), HasSubstr("weight(0)"));
    parallel.weight(0);
    EXPECT_TRUE(std::isnan(parallel.mean({}).item<double>()));
  });
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.synchrony = "async_gossip"});
    EXPECT_THAT(misuse_of([&] { parallel.mean(at::zeros({})); }), HasSubstr("async_gossip"));
  });
}

TEST(DataParallel, WorksOnACommunicatorAlone) {
  run_ranks(2, [](Job& job) {
    Net net, one;
    DataParallel parallel(net, job.world());
    loss_of(net, samples(0, 8).rows(4 * job.rank(), 4 * job.rank() + 4)).backward();
    parallel.synchronize();
    loss_of(one, samples(0, 8)).backward();
    expect_equal(grads_of(net), grads_of(one), 1e-12);
  });
}

}  // namespace
}  // namespace paceline
