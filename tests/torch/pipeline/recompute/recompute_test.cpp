#include "paceline/torch/pipeline/recompute/recompute.h"

#include <optional>

#include "paceline/torch/norm/norm.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/tensor/tensor.h"
#include "tests/support/local_world.h"
#include "tests/torch/pipeline/recompute/recomputed_runs.h"

namespace paceline::recompute_test {
namespace {

TEST(Recompute, BlocksWithDropoutAndWeightsUsedTwiceHaveTheBitsOfPlainCalls) {
  expect_the_bits_of_plain_calls([](Trace& trace, const auto& call) {
    Block first, second;
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
      const at::Tensor x = numbers(1, {5, 24}).requires_grad_(true);
      const at::Tensor y = call(second.part(), call(first.part(), x));
      trace.add(y);
      y.square().sum().backward();
      trace.add(x.grad());
    }
    trace.add_gradients(first);
    trace.add_gradients(second);
  });
}

TEST(Recompute, ComputesEachCallExactlyOnceMore) {
  Block block;
  const at::Tensor x = numbers(1, {5, 24}).requires_grad_(true);
  at::Tensor y = x;
  for (int i = 0; i < 3; ++i) y = recompute(block.part(), y);
  EXPECT_EQ(block.passes, 3);
  y.sum().backward({}, /*retain_graph=*/true);
  EXPECT_EQ(block.passes, 6);
  y.sum().backward();
  EXPECT_EQ(block.passes, 9);
}

TEST(Recompute, TheFunctionSeesInBothPassesWhichInputsRequireAGradient) {
  std::vector<bool> seen;
  const auto function = [&](const Tensors& in) {
    for (const at::Tensor& one : in) seen.push_back(one.requires_grad());
    return Tensors{in[0] * in[1]};
  };
  const at::Tensor x = numbers(1, {4}).requires_grad_(true), y = numbers(2, {4});
  recompute(std::function<Tensors(const Tensors&)>(function), Tensors{x, y})[0].sum().backward();
  EXPECT_EQ(seen, (std::vector<bool>{true, false, true, false}));
}

TEST(Recompute, KeepsNothingButTheInput) {
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> inner;
  const Part part = [&](const at::Tensor& x) {
    const at::Tensor a = x.exp();
    if (!at::GradMode::is_enabled()) inner.push_back(a.storage().getWeakStorageImpl());
    return a.sin();
  };
  const at::Tensor x = numbers(1, {5}).requires_grad_(true);
  const at::Tensor y = recompute(part, x);
  ASSERT_EQ(inner.size(), 1U);
  EXPECT_TRUE(inner.front().expired());
}

TEST(Recompute, JustRunsWhereAutogradDoesNotRecord) {
  Block block;
  block.eval();
  const at::NoGradGuard no_grad;
  const at::Tensor x = numbers(1, {5, 24});
  const at::Tensor y = recompute(block.part(), x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.equal(block.forward(x)));
}

TEST(Recompute, ListsWithIntegersAndOutputsWithoutGradientHaveTheBitsOfPlainCalls) {
  using Lists = std::function<Tensors(const Tensors&)>;
  expect_the_bits_of_plain_calls([](Trace& trace, const auto& call) {
    torch::nn::Embedding table(11, 6);
    torch::nn::Linear linear(6, 6), unused(6, 6);
    const Lists function = [&](const Tensors& in) {
      const at::Tensor rows = table(in[0]) * in[1];
      return Tensors{linear(rows) + in[2], rows.argmax(1), unused(rows),
                     at::Tensor(),         in[2],          linear->bias};
    };
    const at::Tensor tokens = at::arange(5), scale = numbers(2, {5, 6});
    const at::Tensor shift = numbers(3, {5, 6}).requires_grad_(true);
    const Tensors out = call(function, Tensors{tokens, scale, shift});
    ASSERT_EQ(out.size(), 6U);
    EXPECT_FALSE(out[1].requires_grad());
    EXPECT_FALSE(out[3].defined());
    for (const at::Tensor& one : out) trace.add(one);
    (out[0].square().sum() + (out[4] * 3).sum() + out[5].sum()).backward();
    EXPECT_FALSE(unused->weight.grad().defined());
    EXPECT_FALSE(scale.grad().defined());
    trace.add(shift.grad());
    trace.add_gradients(*table);
    trace.add_gradients(*linear);
  });
}

TEST(Recompute, ParametersGetGradientsWhereNoInputRequiresOne) {
  expect_the_bits_of_plain_calls([](Trace& trace, const auto& call) {
    Block block;
    const at::Tensor y = call(block.part(), numbers(1, {5, 24}));
    EXPECT_TRUE(y.requires_grad());
    y.square().sum().backward();
    trace.add_gradients(block);
  });
}

TEST(Recompute, GradientsKeepTheStridesThatTheyHaveInPlainCalls) {
  for (const bool recomputes : {false, true}) {
    std::vector<std::int64_t> seen;
    const Part part = [](const at::Tensor& x) { return x.t(); };
    const at::Tensor x = numbers(1, {4, 6}).requires_grad_(true), inner = x * 2;
    inner.register_hook([&](const at::Tensor& gradient) { seen = gradient.strides().vec(); });
    const at::Tensor y = recomputes ? recompute(part, inner) : part(inner);
    (y * numbers(2, {6, 4})).sum().backward();
    EXPECT_EQ(seen, (std::vector<std::int64_t>{1, 4})) << recomputes;
  }
}

TEST(Recompute, WithinRecomputeHasTheBitsOfPlainCalls) {
  expect_the_bits_of_plain_calls([](Trace& trace, const auto& call) {
    Block inner, middle, outer;
    const Part part = [&](const at::Tensor& x) {
      return call(inner.part(), outer.forward(call(middle.part(), x)));
    };
    const at::Tensor x = numbers(1, {5, 24}).requires_grad_(true);
    const at::Tensor y = call(part, x);
    trace.add(y);
    y.square().sum().backward();
    trace.add(x.grad());
    for (const auto* module : {&inner, &middle, &outer}) trace.add_gradients(*module);
  });
}

// Convolution, normalisation with running statistics, and a moving average of its own.
struct Normed : torch::nn::Module {
  explicit Normed(bool synchronised) {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3)));
    const torch::nn::BatchNormOptions options(4);
    norm = synchronised ? torch::nn::AnyModule(SyncBatchNorm(options))
                        : torch::nn::AnyModule(torch::nn::BatchNorm2d(options));
    register_module("norm", norm.ptr());
    instance = register_module(
        "instance",
        torch::nn::InstanceNorm2d(torch::nn::InstanceNorm2dOptions(4).track_running_stats(true)));
    average = register_buffer("average", at::zeros({4, 3}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = instance(norm.forward(conv(x)).relu_());
    const at::NoGradGuard no_grad;
    average.select(1, 2).mul_(0.9).add_(y.mean({0, 2, 3}), 0.1);
    return y;
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::AnyModule norm;
  torch::nn::InstanceNorm2d instance{nullptr};
  at::Tensor average;
};

TEST(Recompute, WhatAFunctionWritesToIsWrittenOnce) {
  for (const bool synchronised : {false, true}) {
    expect_the_bits_of_plain_calls([&](Trace& trace, const auto& call) {
      Normed model(synchronised);
      const Part part = [&](const at::Tensor& x) { return model.forward(x); };
      for (int step = 0; step < 2; ++step) {
        const at::Tensor x = numbers(10 + step, {3, 2, 6, 6}).requires_grad_(true);
        const at::Tensor other = numbers(20 + step, {3, 2, 6, 6});
        const at::Tensor y = call(part, x);
        const at::Tensor z = call(part, other);  // before the first one goes back
        const at::Tensor plain = model.forward(x * 2);
        trace.add(z);
        y.square().sum().backward();
        z.exp().sum().backward();
        plain.cos().sum().backward();  // what it has saved was not written to
        trace.add(x.grad());
        for (const at::Tensor& buffer : model.buffers()) trace.add(buffer.clone());
      }
      trace.add_gradients(model);
    });
  }
}

TEST(Recompute, WhatAFunctionWritesToStaysWhenTheSecondPassFails) {
  torch::nn::BatchNorm1d norm(4);
  const Part part = [&](const at::Tensor& x) {
    const at::Tensor y = norm(x);
    if (at::GradMode::is_enabled()) throw std::runtime_error("a failure of the function");
    return y;
  };
  const at::Tensor y = recompute(part, numbers(1, {5, 4}));
  const at::Tensor mean = norm->running_mean.clone();
  EXPECT_THROW(y.sum().backward(), std::runtime_error);
  EXPECT_TRUE(norm->running_mean.equal(mean));
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 1);
}

struct Dropping : torch::nn::Module {
  Dropping() {
    linear = register_module("linear", torch::nn::Linear(24, 24));
    drop = register_module("drop", Dropout(0.4));
  }
  at::Tensor forward(const at::Tensor& x) { return drop(at::tanh(drop(linear(x)))); }
  torch::nn::Linear linear{nullptr};
  Dropout drop{nullptr};
};

TEST(Recompute, ATrainingWithDataParallelHasTheBitsOfPlainCalls) {
  for (const int zero_stage : {0, 1, 3}) {
    SCOPED_TRACE(zero_stage);
    expect_the_bits_of_plain_calls([&](Trace& trace, const auto& call) {
      Dropping models[2];
      test::run_ranks(2, [&](Job& job) {
        Dropping& model = models[job.rank()];
        DataParallel parallel(model, job,
                              {.backward_passes_per_step = 2, .zero_stage = zero_stage});
        torch::optim::SGD optimizer(parallel.parameters(), 0.1);
        const Part part = [&](const at::Tensor& x) { return model.forward(x); };
        const Part nested = [&](const at::Tensor& x) { return call(part, x); };
        for (int step = 0; step < 3; ++step) {
          for (int k = 0; k < 2; ++k) {
            auto paused = k == 0 ? std::optional(parallel.no_sync()) : std::nullopt;
            const auto seed = static_cast<std::uint64_t>(30 + k + 2 * step);
            const at::Tensor y = call(step == 0 ? part : nested, numbers(seed, {5, 24}));
            if (job.rank() == 0) trace.add(y);
            y.square().sum().backward();
          }
          parallel.step(optimizer);
          EXPECT_EQ(parallel.last_step().total_weight, 2);
        }
      });
    });
  }
}

}  // namespace
}  // namespace paceline::recompute_test
