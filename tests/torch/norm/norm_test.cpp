// SyncBatchNorm in fp64 against torch's BatchNorm on the whole batch in one process.
#include "paceline/torch/norm/norm.h"

#include <numeric>

#include "tests/support/seed.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

const auto kDoubles = at::TensorOptions().dtype(at::kDouble);

at::Tensor numbers(std::uint64_t seed, at::IntArrayRef sizes) {
  return at::randn(sizes, at::detail::createCPUGenerator(test::seed(seed)), kDoubles);
}

// The rows of each rank, and the rest of the shape.
struct Case {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> rest;  // of the shape, behind (N, C)
  bool affine = true;
};

void expect_equals_batch_norm(const Case& each) {
  constexpr std::int64_t kChannels = 4;
  const std::int64_t all = std::accumulate(each.rows.begin(), each.rows.end(), std::int64_t{0});
  std::vector<std::int64_t> shape{all, kChannels};
  shape.insert(shape.end(), each.rest.begin(), each.rest.end());
  const at::Tensor x = numbers(1, shape) * 3 + 1, dy = numbers(2, shape);
  const auto options = nn::BatchNormOptions(kChannels).affine(each.affine);
  const auto ready = [&](auto& norm) {
    norm->to(at::kDouble);
    if (!each.affine) return;
    const at::NoGradGuard no_grad;
    norm->weight.copy_(numbers(3, {kChannels}));
    norm->bias.copy_(numbers(4, {kChannels}));
  };
  const at::Tensor whole = x.clone().set_requires_grad(true);
  nn::BatchNorm1d one1(options);
  nn::BatchNorm2d one2(options);
  ready(one1);
  ready(one2);
  const bool flat = each.rest.size() < 2;
  const at::Tensor expected = flat ? one1->forward(whole) : one2->forward(whole);
  expected.backward(dy);
  const nn::Module& one = flat ? static_cast<const nn::Module&>(*one1) : *one2;

  run_ranks(static_cast<int>(each.rows.size()), [&](Job& job) {
    const auto own = each.rows.begin() + job.rank();
    const std::int64_t begin = std::accumulate(each.rows.begin(), own, std::int64_t{0}),
                       end = begin + *own;
    const at::Tensor input = x.slice(0, begin, end).clone().set_requires_grad(true);
    SyncBatchNorm norm(options);
    ready(norm);
    norm->compute_over(std::make_shared<BatchRanks>(BatchRanks{&job.world(), 1}));
    const at::Tensor output = norm->forward(input);
    output.backward(dy.slice(0, begin, end));
    if (*own > 0) {
      expect_equal({output.detach()}, {expected.detach().slice(0, begin, end)}, 1e-10);
      // The terms of the gradient of two rows cancel up to eps / variance, some 1e-5 of them.
      expect_equal({input.grad()}, {whole.grad().slice(0, begin, end)}, 1e-8);
    }
    expect_equal(norm->buffers(), one.buffers(), 1e-12);
    if (!each.affine) return;
    const auto parameters = norm->parameters(), parameters_of_one = one.parameters();
    for (std::size_t i = 0; i < 2; ++i) {  // local sums, which DataParallel would average
      at::Tensor grad = parameters[i].grad().clone();
      job.world().all_reduce(buffer_of(grad)).wait();
      EXPECT_LE(difference(grad, parameters_of_one[i].grad()), 1e-10);
    }
    norm->eval();
    const auto before = job.world().traffic().operations;
    if (*own > 0) norm->forward(input);
    EXPECT_EQ(job.world().traffic().operations, before) << "evaluation communicates nothing";
  });
}

TEST(SyncBatchNorm, EqualsBatchNormOfTheWholeBatchAlsoWhereRanksHaveFewRowsOrNone) {
  expect_equals_batch_norm({{4, 4}, {}});
  expect_equals_batch_norm({{3, 6, 1}, {}});
  expect_equals_batch_norm({{5, 0, 2}, {}});
  expect_equals_batch_norm({{0, 1, 1, 0}, {}});
  expect_equals_batch_norm({{2, 3}, {5}});
  expect_equals_batch_norm({{1, 2}, {3, 2}});
  expect_equals_batch_norm({{3, 2}, {}, false});
  expect_equals_batch_norm({{7}, {}});
}

// Without a momentum the running statistics are the plain means over all batches so far.
TEST(SyncBatchNorm, WithoutMomentumAveragesAllBatchesAsBatchNormDoes) {
  const auto options = nn::BatchNormOptions(4).momentum(c10::nullopt);
  nn::BatchNorm1d one(options);
  one->to(at::kDouble);
  run_ranks(1, [&](Job& job) {
    SyncBatchNorm norm(options);
    norm->to(at::kDouble);
    norm->compute_over(std::make_shared<BatchRanks>(BatchRanks{&job.world(), 1}));
    for (std::uint64_t step = 0; step < 5; ++step) {
      const at::Tensor x = numbers(step, {6, 4}) + static_cast<double>(step);
      one->forward(x);
      norm->forward(x);
      expect_equal(norm->buffers(), one->buffers(), 1e-12);
    }
  });
}

// A layer before and behind the norm, so that gradients flow through it.
nn::Sequential model() {
  nn::Sequential net(nn::Linear(6, 5), nn::BatchNorm1d(5), nn::Tanh(), nn::Linear(5, 3));
  net->to(at::kDouble);
  const at::NoGradGuard no_grad;
  std::uint64_t seed = 20;
  for (auto& p : net->parameters()) p.copy_(numbers(seed++, p.sizes()));
  return net;
}

at::Tensor loss_of(nn::Sequential& net, const Samples& s) {
  return at::mse_loss(net->forward(s.x), s.y);
}

TEST(SyncBatchNorm, UnderDataParallelKnowsTheWeightsOfUnevenBatches) {
  const std::vector<std::int64_t> edges{0, 2, 2, 8};  // rank 1 has no batch
  nn::Sequential one = model();
  torch::optim::SGD optimizer_of_one(one->parameters(),
                                     torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 5; ++step) {
    optimizer_of_one.zero_grad();
    loss_of(one, samples(step, 8)).backward();
    optimizer_of_one.step();
  }
  for (const BufferMode mode : {BufferMode::broadcast, BufferMode::off}) {
    SameEverywhere same;
    run_ranks(3, [&](Job& job) {
      nn::Sequential net = model();
      EXPECT_EQ(convert_sync_batch_norm(*net), 1U);
      auto options = kSmallBuckets;
      options.buffers = mode;
      DataParallel parallel(net, job, options);
      torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      const auto rank = static_cast<std::size_t>(job.rank());
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        parallel.weight(static_cast<double>(edges[rank + 1] - edges[rank]));
        const Samples own = samples(step, 8).rows(edges[rank], edges[rank + 1]);
        // A mean over nothing is NaN; a shadow's loss may be any, so long as its backward passes
        // the same layers.
        (own.x.size(0) > 0 ? loss_of(net, own) : net->forward(own.x).sum()).backward();
        ASSERT_TRUE(parallel.step(optimizer));
      }
      expect_equal(net->parameters(), one->parameters(), 1e-10);
      expect_equal(net->buffers(), one->buffers(), 1e-10);
      same.tell("parameters", net->parameters());
      same.tell("buffers", net->buffers());
    });
  }
}

// Its rows count again.
TEST(SyncBatchNorm, IsAPlainBatchNormAfterADataParallelThatEndedWithWeight0) {
  nn::Sequential one = model();
  const Samples batch = samples(3, 8);
  loss_of(one, batch).backward();
  run_ranks(2, [&](Job& job) {
    nn::Sequential net = model();
    convert_sync_batch_norm(*net);
    {
      DataParallel parallel(net, job);
      parallel.weight(job.rank());  // rank 0 has no batch
    }
    loss_of(net, batch).backward();
    for (const std::size_t i : {0U, 2U, 3U, 4U, 5U})  // a bias before a norm has no gradient
      EXPECT_LE(difference(grads_of(*net)[i], grads_of(*one)[i]), 1e-10) << i;
    expect_equal(net->buffers(), one->buffers(), 1e-12);
  });
}

struct Branched : nn::Module {
  Branched() {
    // Before a norm it would have no gradient.
    in = register_module("in", nn::Linear(nn::LinearOptions(6, 5).bias(false)));
    norm = register_module("norm", SyncBatchNorm(nn::BatchNormOptions(5)));
    side = register_module("side", nn::Linear(5, 3));
    out = register_module("out", nn::Linear(5, 3));
    to(at::kDouble);
    const at::NoGradGuard no_grad;
    std::uint64_t seed = 40;
    for (auto& p : parameters()) p.copy_(numbers(seed++, p.sizes()));
  }
  // The rows from `from` on take the side branch too.
  at::Tensor loss(const Samples& s, std::int64_t from) {
    const at::Tensor h = at::tanh(norm(in(s.x)));
    at::Tensor y = out(h);
    if (from < s.x.size(0))
      y = at::cat({y.slice(0, 0, from), y.slice(0, from) + side(h.slice(0, from))});
    return at::mse_loss(y, s.y);
  }
  nn::Linear in{nullptr}, side{nullptr}, out{nullptr};
  SyncBatchNorm norm{nullptr};
};

// A bucket that waits for the side branch starts before the layer's own messages on one rank and
// after them on the other.
TEST(SyncBatchNorm, MayStandAmongParametersThatNotAllRanksUse) {
  Branched one;
  one.loss(samples(0, 8), 4).backward();
  run_ranks(2, [&](Job& job) {
    Branched net;
    DataParallel parallel(net, job, kSmallBuckets);
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      net.loss(samples(0, 8).rows(4 * job.rank(), 4 * job.rank() + 4), job.rank() == 0 ? 4 : 0)
          .backward();
      parallel.synchronize();
      expect_equal(grads_of(net), grads_of(one), 1e-10);
    }
    parallel.rebind(job.world());
    net.zero_grad();
    net.loss(samples(0, 8).rows(4 * job.rank(), 4 * job.rank() + 4), job.rank() == 0 ? 4 : 0)
        .backward();
    parallel.synchronize();
    expect_equal(grads_of(net), grads_of(one), 1e-10);
  });
}

TEST(SyncBatchNorm, NeedsMoreThanOneValueForEachChannel) {
  run_ranks(2, [](Job& job) {
    SyncBatchNorm norm(nn::BatchNormOptions(3));
    norm->compute_over(std::make_shared<BatchRanks>(BatchRanks{&job.world(), 1}));
    EXPECT_THAT(misuse_of([&] {
                  norm->forward(at::ones({job.rank(), 3}));
                }),
                HasSubstr("larger batches"));
    EXPECT_THAT(misuse_of([&] { norm->forward(at::ones({4, 2})); }), HasSubstr("(N, 3, ...)"));
    norm->eval();
    EXPECT_TRUE(norm->forward(at::zeros({1, 3})).eq(0).all().item<bool>());
  });
}

struct TwoNorms : nn::Module {
  explicit TwoNorms(std::int64_t second_channels)
      : second(register_module("second", SyncBatchNorm(nn::BatchNormOptions(second_channels)))) {}
  SyncBatchNorm first = register_module("first", SyncBatchNorm(nn::BatchNormOptions(3)));
  SyncBatchNorm second;
};

Failure failure_in(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.failure();
  }
  return {Fault::io, "nothing was thrown", {}};
}

TEST(SyncBatchNorm, RanksInDifferentLayersAreToldTheLayers) {
  for (const std::int64_t channels : {3, 5}) {
    run_ranks(2, [&](Job& job) {
      TwoNorms net(channels);
      const DataParallel parallel(net, job);
      const Failure failure = failure_in([&] {
        if (job.rank() == 0) net.first->forward(at::ones({4, 3}));
        else net.second->forward(at::ones({4, channels}));
      });
      EXPECT_EQ(failure.fault, Fault::mismatch);
      const bool same_shape = channels == 3;  // the frames then look alike
      if (same_shape || job.rank() == 0) {
        EXPECT_THAT(failure.what, HasSubstr("layer 'first'"));
      }
      if (same_shape || job.rank() == 1) {
        EXPECT_THAT(failure.what, HasSubstr("layer 'second'"));
      }
      EXPECT_THAT(failure.what, HasSubstr("the same layers in the same order"));
    });
  }
}

struct Features : nn::Module {
  Features() {
    layers = register_module(
        "layers", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 4, 1)), nn::BatchNorm2d(4)));
  }
  at::Tensor forward(const at::Tensor& x) { return layers->forward(x); }
  nn::Sequential layers{nullptr};
};

TEST(ConvertSyncBatchNorm, ReachesIntoNestedSequentialsAndKeepsTheParameters) {
  nn::Sequential net(std::make_shared<Features>(), nn::Flatten(), nn::Linear(16, 2),
                     nn::BatchNorm1d(2), nn::BatchNorm1d(nn::BatchNormOptions(2).affine(false)));
  const at::Tensor x = at::randn({5, 3, 2, 2});
  net->forward(x);  // so that the running statistics are not the initial ones
  const auto parameters = net->parameters();
  const auto buffers = sha256_of(net->buffers());
  const at::Tensor expected = net->forward(x);
  EXPECT_EQ(convert_sync_batch_norm(*net), 3U);
  EXPECT_EQ(sync_batch_norms_in(*net).size(), 3U);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(net->parameters()[i].is_same(parameters[i]));
  EXPECT_NE(sha256_of(net->buffers()), buffers);
  EXPECT_LE(difference(net->forward(x), expected), 1e-5)
      << "without ranks it is the plain norm, and forward() goes through it";
  net->eval();
  EXPECT_FALSE(net[1]->is_training());
  EXPECT_EQ(convert_sync_batch_norm(*net), 0U) << "nothing is left";
}

TEST(ConvertSyncBatchNorm, NamesWhatItCannotReplaceAndChangesNothing) {
  struct Block : nn::Module {
    Block() {
      norm = register_module("norm", nn::BatchNorm1d(3));
      rest = register_module("rest", nn::Sequential(nn::BatchNorm1d(3)));
    }
    nn::BatchNorm1d norm{nullptr};
    nn::Sequential rest{nullptr};
  };
  auto block = std::make_shared<Block>();
  EXPECT_THAT(misuse_of([&] { convert_sync_batch_norm(*block); }),
              AllOf(HasSubstr("'norm'"), HasSubstr("paceline::SyncBatchNorm")));
  EXPECT_TRUE(sync_batch_norms_in(*block).empty());
  nn::BatchNorm2d alone(3);
  EXPECT_THAT(misuse_of([&] { convert_sync_batch_norm(*alone); }), HasSubstr("the model itself"));
}

}  // namespace

}  // namespace paceline
