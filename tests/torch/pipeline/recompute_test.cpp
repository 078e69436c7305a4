#include "paceline/torch/pipeline/recompute.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "paceline/torch/norm/norm.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/precision/precision.h"
#include "paceline/torch/tensor/tensor.h"
#include "tests/support/local_world.h"

namespace paceline {
namespace {

using testing::HasSubstr;
using Part = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor numbers(std::uint64_t seed, at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions().dtype(type));
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || (a.scalar_type() == b.scalar_type() && a.equal(b));
}

template <typename Call>
std::string misuse_text(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

// A run's outputs and gradients, and numbers drawn at its end.
struct Trace {
  void add(const at::Tensor& tensor) { tensors.push_back(tensor); }
  void add_gradients(const torch::nn::Module& module) {
    for (const auto& one : module.parameters()) add(one.grad());
  }
  std::vector<at::Tensor> tensors;
};

void expect_same_bits(const Trace& a, const Trace& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i)
    EXPECT_TRUE(same_bits(a.tensors[i], b.tensors[i])) << "tensor " << i;
}

// Runs `run(trace, call)` once with `call` as plain calls and once as recomputed ones.
template <typename Run>
void expect_the_bits_of_plain_calls(const Run& run) {
  Trace traces[2];
  for (const bool recomputes : {false, true}) {
    torch::manual_seed(7);
    run(traces[recomputes ? 1 : 0], [&](const auto& function, const auto& input) {
      return recomputes ? recompute(function, input) : function(input);
    });
    traces[recomputes ? 1 : 0].add(at::rand({3}));
  }
  EXPECT_GT(traces[0].tensors.size(), 1U);
  expect_same_bits(traces[0], traces[1]);
}

// A block whose weight is used twice, with dropout between the uses.
struct Block : torch::nn::Module {
  explicit Block(std::int64_t wide = 24) {
    linear = register_module("linear", torch::nn::Linear(wide, wide));
    drop = register_module("drop", torch::nn::Dropout(0.3));
  }
  at::Tensor forward(const at::Tensor& x) {
    ++passes;
    return linear(at::gelu(drop(linear(x)))) + x;
  }
  Part part() {
    return [this](const at::Tensor& x) { return forward(x); };
  }
  torch::nn::Linear linear{nullptr};
  torch::nn::Dropout drop{nullptr};
  int passes = 0;
};

TEST(Recompute, blocks_with_dropout_and_weights_used_twice_have_the_bits_of_plain_calls) {
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

TEST(Recompute, computes_each_call_exactly_once_more) {
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

TEST(Recompute, the_function_sees_in_both_passes_which_inputs_require_a_gradient) {
  std::vector<bool> seen;
  const auto function = [&](const Tensors& in) {
    for (const at::Tensor& one : in) seen.push_back(one.requires_grad());
    return Tensors{in[0] * in[1]};
  };
  const at::Tensor x = numbers(1, {4}).requires_grad_(true), y = numbers(2, {4});
  recompute(std::function<Tensors(const Tensors&)>(function), Tensors{x, y})[0].sum().backward();
  EXPECT_EQ(seen, (std::vector<bool>{true, false, true, false}));
}

TEST(Recompute, keeps_nothing_but_the_input) {
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

TEST(Recompute, just_runs_where_autograd_does_not_record) {
  Block block;
  block.eval();
  const at::NoGradGuard no_grad;
  const at::Tensor x = numbers(1, {5, 24});
  const at::Tensor y = recompute(block.part(), x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.equal(block.forward(x)));
}

TEST(Recompute, autocast_has_the_bits_of_plain_calls) {
  expect_the_bits_of_plain_calls([](Trace& trace, const auto& call) {
    Block first, second, other;
    for (const bool is_leaf : {true, false}) {
      const at::Tensor x = numbers(1, {16, 24}).requires_grad_(true);
      // The input is read by two products: leaves are cast once, others twice.
      const Part part = [&](const at::Tensor& input) {
        return first.forward(input) * second.linear(input) + at::mm(input, input.t()).sum();
      };
      at::Tensor y;
      {
        const Autocast autocast(at::kBFloat16);
        // A parameter outside that is used on both sides of the call is cast once.
        const at::Tensor z = other.linear(numbers(2, {16, 24})).sum();
        y = call(part, is_leaf ? x : x * 1.5);
        y = other.linear(y) + second.drop(y) + z;
      }
      trace.add(y);
      y.to(at::kFloat).square().mean().backward();
      trace.add(x.grad());
    }
    for (const auto* module : {&first, &second, &other}) trace.add_gradients(*module);
  });
}

TEST(Recompute, a_parameter_gets_its_gradient_when_autocast_casts_it_after_the_first_pass) {
  torch::nn::Linear linear(8, 8);
  const Part part = [&](const at::Tensor& x) { return linear(x); };
  const at::Tensor x = numbers(1, {4, 8});
  const Autocast autocast(at::kBFloat16);
  const at::Tensor y = recompute(part, x);
  linear(x).sum().backward();
  ASSERT_TRUE(linear->weight.grad().defined());
  const at::Tensor once = linear->weight.grad().clone();
  y.sum().backward();
  EXPECT_TRUE(linear->weight.grad().equal(once * 2));
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Recompute, casts_of_the_second_pass_are_not_used_after_it) {
  torch::nn::Linear linear(8, 8);
  const Part part = [&](const at::Tensor& x) { return linear(x); };
  const at::Tensor x = numbers(1, {4, 8});
  at::Tensor before, after;
  {
    const Autocast autocast(at::kBFloat16);
    before = recompute(part, x);
  }
  before.sum().backward();
  {
    const at::NoGradGuard no_grad;
    linear->weight.zero_();
    linear->bias.zero_();
  }
  {
    const Autocast autocast(at::kBFloat16);
    after = linear(x);
  }
  EXPECT_EQ(after.abs().max().item<float>(), 0);
}

TEST(Recompute, the_second_pass_has_the_autocast_state_of_the_first_one) {
  std::vector<std::pair<bool, at::ScalarType>> seen;
  const Part part = [&](const at::Tensor& x) {
    seen.emplace_back(at::autocast::is_autocast_enabled(at::kCPU),
                      at::autocast::get_autocast_dtype(at::kCPU));
    return x * 2;
  };
  const at::Tensor x = numbers(1, {4}).requires_grad_(true);
  at::Tensor within, without = recompute(part, x);
  {
    const Autocast autocast(at::kHalf);
    within = recompute(part, x);
    without.sum().backward();
  }
  within.sum().backward();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[2], seen[0]);
  EXPECT_EQ(seen[3], seen[1]);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Recompute, lists_with_integers_and_outputs_without_gradient_have_the_bits_of_plain_calls) {
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

TEST(Recompute, parameters_get_gradients_where_no_input_requires_one) {
  expect_the_bits_of_plain_calls([](Trace& trace, const auto& call) {
    Block block;
    const at::Tensor y = call(block.part(), numbers(1, {5, 24}));
    EXPECT_TRUE(y.requires_grad());
    y.square().sum().backward();
    trace.add_gradients(block);
  });
}

TEST(Recompute, gradients_keep_the_strides_that_they_have_in_plain_calls) {
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

TEST(Recompute, within_recompute_has_the_bits_of_plain_calls) {
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

TEST(Recompute, what_a_function_writes_to_is_written_once) {
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

TEST(Recompute, what_a_function_writes_to_stays_when_the_second_pass_fails) {
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

TEST(Recompute, a_training_with_data_parallel_has_the_bits_of_plain_calls) {
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

TEST(Recompute, an_input_parameter_or_constant_that_changed_before_backward_is_refused) {
  torch::nn::Linear linear(4, 4);
  const at::Tensor mask = at::ones({4});
  const auto text_after = [&](const auto& change) {
    at::Tensor x = numbers(1, {2, 4}), inner = x.requires_grad_(true) * 1;
    const at::Tensor y = recompute([&](const at::Tensor& in) { return linear(in) * mask; }, inner);
    return misuse_text([&] {
      {
        const at::NoGradGuard no_grad;
        change(inner);
      }
      y.sum().backward();
    });
  };
  EXPECT_THAT(text_after([](at::Tensor& x) { x.mul_(2); }), HasSubstr("input 0 (f32[2, 4])"));
  EXPECT_THAT(text_after([&](at::Tensor&) { linear->bias.add_(1); }),
              HasSubstr("parameter 1 (f32[4])"));
  EXPECT_THAT(text_after([&](at::Tensor&) {
                linear->weight.set_data(at::zeros({4, 4}));
              }),
              HasSubstr("parameter 0 (f32[4, 4])"));
  EXPECT_THAT(text_after([&](at::Tensor&) { mask.zero_(); }), HasSubstr("constant 0 (f32[4])"));
  EXPECT_EQ(text_after([](at::Tensor&) {}), "nothing was thrown");
}

TEST(Recompute, a_function_that_writes_to_its_input_is_refused) {
  const at::Tensor x = numbers(1, {4}).requires_grad_(true) * 1;
  EXPECT_THAT(misuse_text([&] { recompute([](const at::Tensor& in) { return in.relu_(); }, x); }),
              HasSubstr("writes to its input 0 (f32[4]) in place"));
}

TEST(Recompute, a_tensor_with_a_history_that_is_no_input_is_refused) {
  const at::Tensor hidden = numbers(1, {4}).requires_grad_(true).exp();
  EXPECT_THAT(misuse_text([&] {
                recompute([&](const at::Tensor& x) { return x * hidden; }, numbers(2, {4}));
              }),
              HasSubstr("reads f32[4], which has a history and is not among its inputs"));
}

TEST(Recompute, a_function_that_returns_something_else_the_second_time_is_refused) {
  using Lists = std::function<Tensors(const Tensors&)>;
  const at::Tensor x = numbers(1, {4}).requires_grad_(true);
  const Lists another_number = [](const Tensors& in) {
    return Tensors(at::GradMode::is_enabled() ? 3 : 2, in[0] * 2);
  };
  EXPECT_THAT(misuse_text([&] { recompute(another_number, Tensors{x})[0].sum().backward(); }),
              HasSubstr("returned 2 outputs in the forward pass and 3 when"));
  const Part another_shape = [](const at::Tensor& in) {
    return in.narrow(0, 0, at::GradMode::is_enabled() ? 2 : 3) * 1;
  };
  EXPECT_THAT(misuse_text([&] { recompute(another_shape, x).sum().backward(); }),
              HasSubstr("output 0 of the function was f32[3] in the forward pass and f32[2] when"));
}

TEST(Recompute, gradients_of_gradients_of_chosen_tensors_and_second_passes_are_refused) {
  Block block;
  const at::Tensor x = numbers(1, {5, 24}).requires_grad_(true);
  const at::Tensor loss = recompute(block.part(), x).square().sum();
  EXPECT_THAT(misuse_text([&] { loss.backward({}, true, /*create_graph=*/true); }),
              HasSubstr("leave create_graph out"));
  EXPECT_THAT(misuse_text([&] { torch::autograd::grad({loss}, {x}, {}, true); }),
              HasSubstr("gradients of chosen tensors were asked for"));
  EXPECT_EQ(block.passes, 1);
  loss.backward();
  EXPECT_THAT(misuse_text([&] {
                recompute(block.part(), x).backward(at::ones({5, 24}));
              }),
              "nothing was thrown");
  const at::Tensor y = recompute(block.part(), x);
  y.backward(at::ones({5, 24}));
  EXPECT_THAT(misuse_text([&] { y.backward(at::ones({5, 24})); }), HasSubstr("retain_graph=true"));
  EXPECT_THAT(misuse_text([&] { recompute(Part(), x); }), HasSubstr("the function is empty"));
}

}  // namespace
}  // namespace paceline
