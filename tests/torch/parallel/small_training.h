// Small trainings in fp64, for the tests of this room: a net, its samples, and a reference to
// compare results with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <barrier>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/parallel/parallel.h"
#include "tests/support/local_world.h"
#include "tests/support/misuse.h"

namespace paceline {

namespace nn = torch::nn;
using test::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Three layers and a side branch that a step may use or not.
struct Net : nn::Module {
  explicit Net(at::ScalarType type = at::kDouble) {
    first = register_module("first", nn::Linear(6, 8));
    second = register_module("second", nn::Linear(8, 8));
    side = register_module("side", nn::Linear(8, 8));
    last = register_module("last", nn::Linear(8, 3));
    at::Generator generator = at::detail::createCPUGenerator(11);
    const at::NoGradGuard no_grad;
    for (auto& p : parameters())
      p.copy_(at::randn(p.sizes(), generator, at::TensorOptions().dtype(at::kDouble)).mul_(0.4));
    to(type);
  }
  at::Tensor forward(at::Tensor x, bool use_side = false) {
    x = at::tanh(second(at::tanh(first(x))));
    if (use_side) x = x + at::tanh(side(x));
    return last(x);
  }
  nn::Linear first{nullptr}, second{nullptr}, side{nullptr}, last{nullptr};
};

struct Samples {
  at::Tensor x, y;
  Samples rows(std::int64_t begin, std::int64_t end) const {
    return {x.slice(0, begin, end), y.slice(0, begin, end)};
  }
};

inline Samples samples(int step, std::int64_t count) {
  at::Generator generator = at::detail::createCPUGenerator(100 + static_cast<std::uint64_t>(step));
  const auto f64 = at::TensorOptions().dtype(at::kDouble);
  return {at::randn({count, 6}, generator, f64), at::randn({count, 3}, generator, f64)};
}

inline at::Tensor loss_of(Net& net, const Samples& s, bool use_side = false) {
  const auto type = net.last->weight.scalar_type();
  return at::mse_loss(net.forward(s.x.to(type), use_side), s.y.to(type));
}

inline torch::optim::SGD sgd(Net& net) {
  return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

inline double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / (b.abs().max() + 1e-12)).item<double>();
}

inline void expect_equal(const std::vector<at::Tensor>& got,
                         const std::vector<at::Tensor>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << "tensor " << i;
    if (got[i].defined()) {
      EXPECT_LE(difference(got[i], expected[i]), tolerance) << "tensor " << i;
    }
  }
}

inline std::vector<at::Tensor> grads_of(const nn::Module& net) {
  std::vector<at::Tensor> grads;
  for (const auto& p : net.parameters())
    grads.push_back(p.grad().defined() ? p.grad().clone() : at::Tensor());
  return grads;
}

// The state in which all ranks must agree, bit for bit.
class SameEverywhere {
 public:
  void tell(const std::string& what, const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> defined;
    std::string digest;
    for (const auto& tensor : tensors) {
      digest += tensor.defined() ? 'd' : 'u';
      if (tensor.defined()) defined.push_back(tensor);
    }
    digest += sha256_of(defined);
    const std::lock_guard lock(mutex_);
    const auto [place, fresh] = told_.emplace(what, digest);
    EXPECT_EQ(place->second, digest) << what << " differs between ranks";
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> told_;
};

using test::misuse_of;

// The loss of a net, whose backward pass halts before it reaches the first layer.
inline at::Tensor loss_that_halts(Net& net, const Samples& s, const std::function<void()>& halt) {
  at::Tensor x = at::tanh(net.first(s.x));
  x.register_hook([halt](const at::Tensor&) { halt(); });
  x = at::tanh(net.second(x));
  return at::mse_loss(net.last(x + at::tanh(net.side(x))), s.y);
}

// Waits, within a backward pass of all ranks, until the weights with which a step begins are known:
// from then on a bucket leaves as soon as it is full. `before`: operations of the world when the
// step began.
inline void wait_for_weights(Job& job, std::barrier<>& all_ranks, std::uint64_t before) {
  all_ranks.arrive_and_wait();
  const Deadline deadline = Deadline::in(std::chrono::seconds(60));
  while (job.world().traffic().operations == before && !deadline.passed())
    std::this_thread::yield();
}

// Small buckets, so that a step of the small net has several.
inline const DataParallelOptions kSmallBuckets{.first_bucket_bytes = 300, .bucket_bytes = 600};

}  // namespace paceline
