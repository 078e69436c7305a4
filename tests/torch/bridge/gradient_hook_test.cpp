#include "paceline/torch/bridge/gradient_hook.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <thread>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/torch/bridge/tensors.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

at::Tensor leaf(std::initializer_list<double> values) {
  return torch::tensor(std::vector<double>(values), at::kDouble).set_requires_grad(true);
}

TEST(GradientHook, TellsOfAGradientAfterItWasAccumulated) {
  const at::Tensor p = leaf({1, 2});
  std::vector<double> seen;
  GradientHook hook(
      p, {[] { return true; }, [&](bool) { seen.push_back(p.grad()[1].item<double>()); }});
  (p * 3).sum().backward();
  (p * 4).sum().backward();
  EXPECT_EQ(seen, (std::vector<double>{3, 7}));
}

TEST(GradientHook, AParameterUsedTwiceFiresOnceAfterBoth) {
  const at::Tensor p = leaf({1, 2});
  int fired = 0;
  GradientHook hook(p, {[] { return true; }, [&](bool) { ++fired; }});
  ((p * 3).sum() + (p * p).sum()).backward();
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(p.grad()[1].item<double>(), 7);
}

TEST(GradientHook, ARefusedGradientLeavesGradAlone) {
  const at::Tensor p = leaf({1, 2});
  bool accept = false;
  int accumulated = 0;
  GradientHook hook(p, {[&] { return accept; }, [&](bool) { ++accumulated; }});
  (p * 3).sum().backward();
  EXPECT_FALSE(p.grad().defined());
  EXPECT_EQ(accumulated, 0);
  accept = true;
  (p * 3).sum().backward();
  EXPECT_EQ(accumulated, 1);
  EXPECT_EQ(p.grad()[0].item<double>(), 3);
}

TEST(GradientHook, ExceptionsComeOutOfBackwardWithTheirType) {
  const at::Tensor p = leaf({1, 2});
  for (const bool early : {true, false}) {
    GradientHook hook(p, {[&] { return early ? throw_misuse("early") : void(), true; },
                          [](bool) { throw_misuse("late"); }});
    try {
      (p * 3).sum().backward();
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), early ? "early" : "late");
    }
  }
}

TEST(GradientHook, RunsOnTheThreadThatCalledBackward) {
  const at::Tensor p = leaf({1});
  std::thread::id where;
  GradientHook hook(p, {[] { return true; }, [&](bool) { where = std::this_thread::get_id(); }});
  std::thread([&] {
    (p * 2).sum().backward();
    EXPECT_EQ(where, std::this_thread::get_id());
  }).join();
}

TEST(GradientHook, EachBackwardHasItsOwnNumber) {
  const at::Tensor p = leaf({1}), q = leaf({1});
  std::vector<int> numbers;
  GradientHook a(p, {[] { return true; }, [&](bool) { numbers.push_back(current_backward()); }});
  GradientHook b(q, {[] { return true; }, [&](bool) { numbers.push_back(current_backward()); }});
  (p * q).sum().backward();
  (p * q).sum().backward();
  ASSERT_EQ(numbers.size(), 4u);
  EXPECT_EQ(numbers[0], numbers[1]);
  EXPECT_EQ(numbers[2], numbers[3]);
  EXPECT_NE(numbers[0], numbers[2]);
}

TEST(GradientHook, TellsABackwardThatBuildsAGraph) {
  const at::Tensor p = leaf({1});
  bool builds = false;
  GradientHook hook(p, {[&] { return builds = backward_builds_graph(), true; }, [](bool) {}});
  (p * p).sum().backward();
  EXPECT_FALSE(builds);
  (p * p).sum().backward({}, true, true);
  EXPECT_TRUE(builds);
  p.mutable_grad().reset();
}

TEST(GradientHook, IsSilentOnceItIsGoneAndOthersStay) {
  const at::Tensor p = leaf({1});
  int first = 0, second = 0;
  const at::Tensor loss = (p * 2).sum();  // a graph that holds the node while hooks come and go
  auto a = std::make_unique<GradientHook>(
      p, GradientEvents{[] { return true; }, [&](bool) { ++first; }});
  const GradientHook b(p, {[] { return true; }, [&](bool) { ++second; }});
  a.reset();
  loss.backward();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST(GradientHook, OnlyLeavesThatRequireAGradientCanBeWatched) {
  const GradientEvents events{[] { return true; }, [](bool) {}};
  EXPECT_THROW(GradientHook(at::zeros({2}), events), Error);
  EXPECT_THROW(GradientHook(leaf({1}) * 2, events), Error);
  EXPECT_THROW(GradientHook(at::Tensor(), events), Error);
}

std::shared_ptr<void> memory_for(const at::Tensor& tensor) {
  const auto owner =
      std::make_shared<std::vector<double>>(static_cast<std::size_t>(tensor.numel()));
  return {owner, owner->data()};
}

// A leaf whose gradients shall be born in memory of ours.
struct Watched {
  explicit Watched(at::Tensor parameter) : leaf(parameter.set_requires_grad(true)) {
    hook = std::make_unique<GradientHook>(
        leaf, GradientEvents{[] { return true; }, [this](bool held) { was_held = held; },
                             [this] { return willing ? memory : nullptr; }});
  }
  bool born() const { return leaf.grad().const_data_ptr() == memory.get(); }

  at::Tensor leaf;
  std::shared_ptr<void> memory = memory_for(leaf);
  bool willing = true, was_held = false;
  std::unique_ptr<GradientHook> hook;
};

at::Tensor f64(at::IntArrayRef shape, int seed) {
  at::Generator generator =
      at::detail::createCPUGenerator(test::seed(static_cast<std::uint64_t>(seed)));
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble));
}

// The weight, the input's gradient and the result are all of one size: every allocation is as long
// as the gradient.
TEST(GradientPlacement, IsWhereItWasAskedForFromTheSecondPassWithTheSameBits) {
  for (const bool view : {false, true}) {
    Watched watched(f64({8, 8}, 1));
    const at::Tensor x = f64({8, 8}, 2).set_requires_grad(true), y = f64({8, 8}, 3);
    const auto loss = [&](const at::Tensor& weight) {
      const at::Tensor product = view ? torch::nn::functional::linear(x, weight) : x.mm(weight);
      return at::mse_loss(at::tanh(product), y);
    };
    const at::Tensor plain = watched.leaf.detach().clone().set_requires_grad(true);
    loss(plain).backward();
    for (int pass = 0; pass < 4; ++pass) {
      watched.leaf.mutable_grad().reset();
      x.mutable_grad().reset();
      loss(watched.leaf).backward();
      EXPECT_EQ(watched.born(), pass > 0) << "pass " << pass << (view ? ", through a view" : "");
      EXPECT_TRUE(at::equal(watched.leaf.grad(), plain.grad()));
      EXPECT_FALSE(watched.was_held);
    }
  }
}

TEST(GradientPlacement, LibtorchChoosesWhileTheOwnerIsNotWillingOrTheGradientAccumulates) {
  Watched watched(f64({4, 4}, 1));
  const auto pass = [&] { at::exp(watched.leaf).sum().backward(); };
  pass();
  const at::Tensor first = watched.leaf.grad();
  pass();
  EXPECT_TRUE(is_same_memory(watched.leaf.grad(), first)) << "grad is added to where it is";
  watched.willing = false;
  watched.leaf.mutable_grad().reset();
  pass();
  EXPECT_FALSE(watched.born());
  watched.willing = true;
  watched.leaf.mutable_grad().reset();
  pass();
  EXPECT_TRUE(watched.born());
}

TEST(GradientPlacement, FollowsAModelThatComputesItsGradientInAnotherWayNow) {
  Watched watched(f64({4, 4}, 1));
  const at::Tensor x = f64({4, 4}, 2).set_requires_grad(true);
  for (int turn = 0; turn < 3; ++turn) {
    for (const bool detour : {false, false, true, true}) {
      watched.leaf.mutable_grad().reset();
      const at::Tensor w = detour ? at::tanh(watched.leaf).t() : watched.leaf;
      const at::Tensor plain = watched.leaf.detach().clone().set_requires_grad(true);
      x.mm(w).sum().backward();
      x.mm(detour ? at::tanh(plain).t() : plain).sum().backward();
      EXPECT_TRUE(at::equal(watched.leaf.grad(), plain.grad()));
    }
  }
}

TEST(GradientPlacement, AGradientWhoseMemoryAHookKeepsIsToldOf) {
  Watched watched(f64({4, 4}, 1));
  std::vector<at::Tensor> kept;
  for (const bool keep : {false, false, true}) {
    watched.leaf.mutable_grad().reset();
    if (keep)
      watched.leaf.register_hook(
          [&](const at::Tensor& gradient) { kept.push_back(gradient.detach()); });
    at::exp(watched.leaf).sum().backward();
    EXPECT_EQ(watched.was_held, keep);
  }
}

TEST(GradientPlacement, TheMemoryLivesAsLongAsTheGradient) {
  std::weak_ptr<void> memory;
  at::Tensor grad;
  {
    Watched watched(f64({4, 4}, 1));
    memory = watched.memory;
    for (int pass = 0; pass < 2; ++pass) {
      watched.leaf.mutable_grad().reset();
      at::exp(watched.leaf).sum().backward();
    }
    ASSERT_TRUE(watched.born());
    grad = watched.leaf.grad();
  }
  EXPECT_FALSE(memory.expired());
  grad.reset();
  EXPECT_TRUE(memory.expired());
}

// This is how oneDNN allocates: it gives only an address back to the allocator, from inside and
// outside of a backward pass.
TEST(GradientPlacement, LeavesRawAllocationPossible) {
  Watched watched(f64({8, 8}, 1));
  c10::Allocator* const allocator = c10::GetAllocator(c10::kCPU);
  allocator->raw_deallocate(allocator->raw_allocate(64));
  bool raw = false;
  for (int pass = 0; pass < 4; ++pass) {
    watched.leaf.mutable_grad().reset();
    at::Tensor product = f64({8, 8}, 2).mm(watched.leaf);
    product.register_hook([&](const at::Tensor&) {
      allocator->raw_deallocate(allocator->raw_allocate(watched.leaf.nbytes()));
      raw = true;
    });
    product.sum().backward();
    EXPECT_EQ(watched.born(), pass > 0);
  }
  EXPECT_TRUE(raw);
  struct Raw : torch::autograd::Function<Raw> {  // the allocation is made by the very node whose
                                                 // result is the gradient
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
      return x.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   const torch::autograd::variable_list& dy) {
      c10::Allocator* const cpu = c10::GetAllocator(c10::kCPU);
      cpu->raw_deallocate(cpu->raw_allocate(dy[0].nbytes()));
      return {dy[0].clone()};
    }
  };
  for (int pass = 0; pass < 4; ++pass) {
    watched.leaf.mutable_grad().reset();
    Raw::apply(watched.leaf).sum().backward();
    EXPECT_TRUE(watched.leaf.grad().eq(1).all().item<bool>());
  }
}

}  // namespace

}  // namespace paceline
