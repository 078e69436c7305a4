#include "paceline/torch/bridge/first_use.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

namespace paceline {
namespace {

TEST(FirstUse, TellsOnceBeforeTheOperatorRuns) {
  const at::Tensor a = at::ones({2, 3}), b = at::ones({3}), never = at::ones({1});
  std::vector<std::size_t> seen;
  const FirstUse watch({a, b, never}, [&](std::size_t place) {
    seen.push_back(place);
    (place == 0 ? a : b).add_(1);  // the value that the operator then reads
  });
  const at::Tensor sum = at::matmul(at::ones({1, 2}), a);
  EXPECT_EQ(sum.sum().item<double>(), 12);
  EXPECT_EQ(at::cat({b, b}).sum().item<double>(), 12) << "within a list";
  (void)(a + b);
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1}));
}

TEST(FirstUse, AnUpdateBeforeTheForwardPassIsNoChangeThatAutogradMinds) {
  torch::nn::Linear layer(4, 3), same(4, 3);
  {
    const at::NoGradGuard no_grad;
    same->weight.copy_(layer->weight + 1);
    same->bias.copy_(layer->bias + 1);
  }
  const FirstUse watch(layer->parameters(), [&](std::size_t place) {
    const at::NoGradGuard no_grad;
    layer->parameters()[place].add_(1);
  });
  const at::Tensor x = at::randn({5, 4});
  layer(x).square().sum().backward();
  same(x).square().sum().backward();
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(at::equal(layer->parameters()[i].grad(), same->parameters()[i].grad()));
}

TEST(FirstUse, ManyWatchTheirOwnAndNoneAfterItsEnd) {
  const at::Tensor a = at::ones({2}), b = at::ones({2});
  int of_a = 0, of_b = 0;
  {
    const FirstUse watch_a({a}, [&](std::size_t) { ++of_a; });
    {
      const FirstUse watch_b({b}, [&](std::size_t) { ++of_b; });
      (void)(a + 1);
    }
    (void)(b + 1);
  }
  (void)(a + b);
  EXPECT_EQ(of_a, 1);
  EXPECT_EQ(of_b, 0);
}

// The memory of a layer comes before each operator that has it, also within backward, and goes
// again.
TEST(StorageUses, TellsOfEveryOperatorForwardAndBackward) {
  torch::nn::Linear first(4, 3), second(3, 2);
  const at::Tensor x = at::randn({5, 4});
  const auto loss = [&] { return second(at::tanh(first(x))).square().sum(); };
  loss().backward();
  const at::Tensor want = first->weight.grad().clone();
  first->weight.mutable_grad().reset();

  // Both layers' weights live in storages that are empty outside of their use.
  std::vector<at::Tensor> weights = {first->weight, second->weight}, values;
  std::vector<c10::Storage> storages;
  for (at::Tensor& weight : weights) {
    values.push_back(weight.detach().clone());
    storages.push_back(weight.storage());
    storages.back().set_nbytes(0);
    storages.back().unsafeGetStorageImpl()->set_data_ptr_noswap({nullptr, c10::kCPU});
  }
  std::vector<std::size_t> order;
  {
    const StorageUses uses(storages, [&](const std::vector<std::size_t>& places) {
      for (const std::size_t place : places) {
        if (!order.empty() && order.back() == place) continue;
        order.push_back(place);
        c10::StorageImpl* const storage = storages[place].unsafeGetStorageImpl();
        storage->set_data_ptr_noswap({values[place].mutable_data_ptr(), c10::kCPU});
        storage->set_nbytes(values[place].nbytes());
        storages[1 - place].unsafeGetStorageImpl()->set_data_ptr_noswap({nullptr, c10::kCPU});
        storages[1 - place].set_nbytes(0);
      }
    });
    loss().backward();
  }
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1}))
      << "x needs no gradient, so the backward pass does not read the first layer";
  EXPECT_TRUE(at::equal(first->weight.grad(), want));
  const at::Tensor joined = at::ones({2});
  int together = 0;
  const StorageUses uses(
      {joined.storage(), x.storage()},
      [&](const std::vector<std::size_t>& places) { together += places.size() == 2; });
  (void)at::cat({joined, x.flatten(), joined});
  EXPECT_EQ(together, 1) << "each once";
}

// The programs do what libtorch's clipping does, or what only looks like it.
TEST(ScalingByNorm, SeesAMultiplicationByATensorBehindANorm) {
  const auto is_seen = [](const std::function<void(at::Tensor, at::Tensor)>& program) {
    const at::Tensor a = at::ones({3}), b = at::ones({2});
    const ScalingByNorm watch({a.storage(), b.storage()});
    program(a, b);
    return watch.was_seen();
  };
  const at::Tensor factor = at::full({}, 0.5);
  EXPECT_TRUE(is_seen([&](at::Tensor a, at::Tensor b) {
    const at::Tensor norm = at::stack({a.data().norm(2.0), b.data().norm(2.0)}).norm(2.0);
    b.data().mul_(factor / norm);
  }));
  EXPECT_TRUE(
      is_seen([&](at::Tensor a, at::Tensor) { a.data().mul_(factor / a.data().abs().max()); }));
  EXPECT_FALSE(is_seen([&](at::Tensor a, at::Tensor) {
    a.mul_(factor);
    static_cast<void>(a.norm());
  })) << "the norm comes last";
  EXPECT_FALSE(is_seen([&](at::Tensor a, at::Tensor) {
    static_cast<void>(a.norm());
    a.mul_(0.5);
  })) << "by a number of the program's";
  EXPECT_FALSE(is_seen([&](at::Tensor a, at::Tensor) {
    static_cast<void>(a.norm());
    at::ones({3}).mul_(factor);
  })) << "of another tensor";
}

TEST(TensorWrites, AreToldWithTheirPlaceWhateverTensorTheyGoThrough) {
  const at::NoGradGuard no_grad;
  const at::Tensor watched = at::ones({4}), second = at::ones({4});
  at::Tensor other = at::ones({4}), out = watched;
  std::set<std::size_t> told;
  const TensorWrites writes({watched, second}, [&](std::size_t place) { told.insert(place); });
  const auto told_of = [&](const std::function<void()>& call) {
    told.clear();
    call();
    return told;
  };
  using Places = std::set<std::size_t>;
  EXPECT_EQ(told_of([&] { (void)watched.norm(); }), Places());
  EXPECT_EQ(told_of([&] { other.add_(watched); }), Places()) << "reading is no writing";
  EXPECT_EQ(told_of([&] { watched.data().mul_(2); }), Places{0}) << "as torch's SGD writes";
  EXPECT_EQ(told_of([&] { second.narrow(0, 1, 2).fill_(3); }), Places{1}) << "through a view";
  EXPECT_EQ(told_of([&] { at::mul_out(out, other, other); }), Places{0}) << "as an output";
}

}  // namespace
}  // namespace paceline
