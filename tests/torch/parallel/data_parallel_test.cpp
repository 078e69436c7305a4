// DataParallel in fp64 against one process that computes on the global batch.
#include "paceline/torch/parallel/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "paceline/torch/bridge/bridge.h"
#include "tests/support/local_world.h"

namespace paceline {
namespace {

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

Samples samples(int step, std::int64_t count) {
  at::Generator generator = at::detail::createCPUGenerator(100 + static_cast<std::uint64_t>(step));
  const auto f64 = at::TensorOptions().dtype(at::kDouble);
  return {at::randn({count, 6}, generator, f64), at::randn({count, 3}, generator, f64)};
}

at::Tensor loss_of(Net& net, const Samples& s, bool use_side = false) {
  const auto type = net.last->weight.scalar_type();
  return at::mse_loss(net.forward(s.x.to(type), use_side), s.y.to(type));
}

torch::optim::SGD sgd(Net& net) {
  return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / (b.abs().max() + 1e-12)).item<double>();
}

void expect_equal(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected,
                  double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << "tensor " << i;
    if (got[i].defined()) {
      EXPECT_LE(difference(got[i], expected[i]), tolerance) << "tensor " << i;
    }
  }
}

std::vector<at::Tensor> grads_of(const nn::Module& net) {
  std::vector<at::Tensor> grads;
  for (const auto& p : net.parameters())
    grads.push_back(p.grad().defined() ? p.grad().clone() : at::Tensor());
  return grads;
}

// What all ranks must agree in, bit for bit.
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

template <typename Call>
std::string misuse_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

// Small buckets, so that a step of the small net has several.
const DataParallelOptions kSmallBuckets{.first_bucket_bytes = 300, .bucket_bytes = 600};

enum class Zero { drop, in_place, never };

// Trains on uneven parts of global batches: rank r has r + 1 rows of them, the last rank what is
// left.
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

TEST(DataParallel, uneven_batches_equal_one_process_when_gradients_are_dropped) {
  for (int ranks : {2, 3, 4}) train_and_compare(ranks, Zero::drop);
}
TEST(DataParallel, uneven_batches_equal_one_process_when_gradients_are_zeroed_in_place) {
  for (int ranks : {2, 3}) train_and_compare(ranks, Zero::in_place);
}
TEST(DataParallel, uneven_batches_equal_one_process_when_gradients_accumulate) {
  for (int ranks : {2, 3}) train_and_compare(ranks, Zero::never);
}

TEST(DataParallel, a_world_of_one_has_the_plain_loops_bits) {
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

TEST(DataParallel, without_weights_all_ranks_weigh_the_same) {
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

TEST(DataParallel, starts_with_rank_0s_parameters_and_buffers) {
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

TEST(DataParallel, a_parameter_that_only_one_rank_used_counts_as_zero_elsewhere) {
  Net one;
  const Samples all = samples(0, 8);
  // The mean over 8 samples, of which only the first 4 use the side branch.
  (loss_of(one, all.rows(0, 4), true) * 0.5 + loss_of(one, all.rows(4, 8), false) * 0.5).backward();
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    for (int step = 0; step < 3; ++step) {  // also after the rebuild
      net.zero_grad();
      loss_of(net, all.rows(4 * job.rank(), 4 * job.rank() + 4), job.rank() == 0).backward();
      parallel.synchronize();
      EXPECT_EQ(parallel.last_step().used, 8);
      EXPECT_EQ(parallel.last_step().gradients, job.rank() == 0 ? 8 : 6);
      expect_equal(grads_of(net), grads_of(one), 1e-12);
      same.tell("gradients", grads_of(net));
    }
  });
}

TEST(DataParallel, accumulated_gradients_survive_a_step_that_not_all_ranks_use) {
  Net one;
  const Samples all = samples(0, 8);
  const auto pass = [&](bool first_half_uses) {
    (loss_of(one, all.rows(0, 4), first_half_uses) * 0.5 + loss_of(one, all.rows(4, 8), true) * 0.5)
        .backward();
  };
  pass(true);
  pass(false);
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    const Samples own = all.rows(4 * job.rank(), 4 * job.rank() + 4);
    loss_of(net, own, true).backward();
    parallel.synchronize();
    loss_of(net, own, job.rank() == 1).backward();  // no zero_grad
    parallel.synchronize();
    expect_equal(grads_of(net), grads_of(one), 1e-12);
  });
}

TEST(DataParallel, a_parameter_that_no_rank_used_keeps_its_grad_untouched) {
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    const auto step = [&](bool use_side) {
      loss_of(net, samples(job.rank(), 4), use_side).backward();
      parallel.synchronize();
    };
    for (int i = 0; i < 3; ++i) {
      step(false);
      EXPECT_FALSE(net.side->weight.grad().defined());
      EXPECT_EQ(parallel.last_step().used, 6);
      net.zero_grad();
    }
    step(true);
    const at::Tensor before = net.side->weight.grad().clone();
    step(false);  // accumulates elsewhere; here nothing arrives
    EXPECT_TRUE(at::equal(net.side->weight.grad(), before));
    const at::Tensor own = at::full_like(net.side->weight, 3.5);
    net.zero_grad();
    net.side->weight.mutable_grad() = own;
    step(false);
    EXPECT_TRUE(net.side->weight.grad().is_same(own));
    EXPECT_TRUE(own.eq(3.5).all().item<bool>());
  });
}

TEST(DataParallel, gradients_that_the_user_set_take_part_in_the_sum) {
  run_ranks(2, [&](Job& job) {
    Net net, one;
    DataParallel parallel(net, job, kSmallBuckets);
    for (auto& p : one.parameters()) p.mutable_grad() = at::full_like(p, 0.25);
    loss_of(one, samples(0, 8), true).backward();
    for (int step = 0; step < 2; ++step) {
      for (auto& p : net.parameters()) p.mutable_grad() = at::full_like(p, 0.25);
      loss_of(net, samples(0, 8).rows(4 * job.rank(), 4 * job.rank() + 4), true).backward();
      parallel.synchronize();
      expect_equal(grads_of(net), grads_of(one), 1e-12);
    }
  });
}

TEST(DataParallel, frozen_parameters_are_left_out_at_the_start_and_rest_later) {
  run_ranks(2, [&](Job& job) {
    Net net;
    net.first->weight.set_requires_grad(false);
    DataParallel parallel(net, job, kSmallBuckets);
    std::size_t planned = 0;
    for (const auto& bucket : parallel.buckets()) planned += bucket.gradients.size();
    EXPECT_EQ(planned, 7u);
    for (int step = 0; step < 4; ++step) {
      if (step == 2) net.second->weight.set_requires_grad(false);  // in mid-run, on all ranks
      net.zero_grad();
      loss_of(net, samples(job.rank(), 4)).backward();
      parallel.synchronize();
      EXPECT_FALSE(net.first->weight.grad().defined());
      EXPECT_EQ(net.second->weight.grad().defined(), step < 2);
      EXPECT_TRUE(net.first->bias.grad().defined());
    }
  });
}

TEST(DataParallel, a_shadow_contributes_nothing_and_ends_with_the_same_gradients) {
  Net one;
  const Samples all = samples(0, 8);
  loss_of(one, all).backward();
  for (const bool shadow_computes : {false, true}) {
    SameEverywhere same;
    run_ranks(3, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job, kSmallBuckets);
      const bool shadow = job.rank() == 0;
      for (int step = 0; step < 2; ++step) {
        net.zero_grad();
        parallel.weight(shadow ? 0 : 4);
        if (!shadow) loss_of(net, all.rows(4 * job.rank() - 4, 4 * job.rank())).backward();
        if (shadow && shadow_computes)
          loss_of(net, samples(9, 3), true).backward();  // even of a branch that nobody else uses
        EXPECT_TRUE(parallel.synchronize());
        expect_equal(grads_of(net), grads_of(one), 1e-12);
        same.tell("gradients", grads_of(net));
      }
    });
  }
}

TEST(DataParallel, ranks_of_different_lengths_end_together_and_nobody_steps_in_the_closing_round) {
  for (const std::vector<int>& lengths : {std::vector<int>{3, 5, 5, 7}, {0, 2, 1}, {0, 0}}) {
    SameEverywhere same;
    const int longest = *std::max_element(lengths.begin(), lengths.end());
    run_ranks(static_cast<int>(lengths.size()), [&](Job& job) {
      Net net;
      DataParallel parallel(net, job);
      auto optimizer = sgd(net);
      const int length = lengths[static_cast<std::size_t>(job.rank())];
      int rounds = 0;
      for (bool more = true; more; ++rounds) {
        optimizer.zero_grad();
        parallel.weight(rounds < length ? 2 : 0);
        if (rounds < length) loss_of(net, samples(10 * job.rank() + rounds, 2)).backward();
        const std::string before = sha256_of(net.parameters());
        more = parallel.step(optimizer);
        EXPECT_EQ(more, sha256_of(net.parameters()) != before);
      }
      EXPECT_EQ(rounds, longest + 1);
      same.tell("parameters", net.parameters());
    });
  }
}

TEST(DataParallel, no_sync_accumulates_to_the_gradient_of_the_large_batch) {
  Net one;
  const Samples all = samples(0, 12);
  loss_of(one, all).backward();
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    const Samples own = all.rows(6 * job.rank(), 6 * job.rank() + 6);
    for (int step = 0; step < 2; ++step) {
      net.zero_grad();
      {
        const auto paused = parallel.no_sync();
        for (int k = 0; k < 2; ++k) (loss_of(net, own.rows(2 * k, 2 * k + 2)) / 3).backward();
      }
      (loss_of(net, own.rows(4, 6)) / 3).backward();
      parallel.synchronize();
      expect_equal(grads_of(net), grads_of(one), 1e-12);
      same.tell("gradients", grads_of(net));
    }
    // What only fired while paused is sent too.
    net.zero_grad();
    {
      const auto paused = parallel.no_sync();
      net.side->weight.sum().backward();
    }
    loss_of(net, own).backward();
    parallel.synchronize();
    EXPECT_TRUE(net.side->weight.grad().eq(1).all().item<bool>());
  });
}

// Every layer is as wide as the batch is long: all that a step allocates is as long as a gradient, so what is born in a slot
// is told apart by learning alone; and a hook keeps gradients that it was shown.
TEST(DataParallel, gradients_born_in_place_equal_copied_ones_bit_for_bit_and_kept_ones_stay) {
  constexpr std::int64_t kWide = 8;
  const auto train = [=](Job& job, bool born) {
    nn::Sequential net(nn::Linear(kWide, kWide), nn::Tanh(), nn::Linear(kWide, kWide), nn::Tanh(),
                       nn::Linear(kWide, kWide));
    net->to(at::kDouble);
    at::Generator generator = at::detail::createCPUGenerator(5);
    {
      const at::NoGradGuard no_grad;
      for (auto& p : net->parameters()) p.copy_(at::randn(p.sizes(), generator, at::TensorOptions().dtype(at::kDouble)));
    }
    std::vector<at::Tensor> kept, as_seen;
    net->parameters()[2].register_hook([&](const at::Tensor& gradient) {
      kept.push_back(kept.size() % 2 == 0 ? gradient : gradient.detach());
      as_seen.push_back(gradient.clone());
    });
    DataParallel parallel(net, job, {.first_bucket_bytes = 600, .bucket_bytes = 1200, .born_in_place = born});
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
    for (int step = 0; step < 8; ++step) {
      const at::Tensor x = at::randn({kWide, kWide}, at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + job.rank())),
                                     at::TensorOptions().dtype(at::kDouble));
      if (step != 4) optimizer.zero_grad();  // once it accumulates
      parallel.weight(step < 6 ? 3 : job.rank() + 1);
      net->forward(x).square().mean().backward();
      parallel.step(optimizer);
    }
    EXPECT_EQ(parallel.last_step().copied, born ? 1 : 6) << "all but that which is kept";
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], as_seen[i])) << "step " << i;
    return sha256_of(net->parameters());
  };
  run_ranks(2, [&](Job& job) { EXPECT_EQ(train(job, true), train(job, false)); });
}

TEST(DataParallel, sends_one_message_for_each_bucket_and_they_overlap_with_backward) {
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    loss_of(net, samples(0, 4), true).backward();
    parallel.synchronize();
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      const auto before = job.world().traffic().operations;
      loss_of(net, samples(step, 4), true).backward();
      parallel.synchronize();
      EXPECT_EQ(job.world().traffic().operations - before, parallel.buckets().size());
      const StepReport& report = parallel.last_step();
      EXPECT_EQ(report.buckets, static_cast<int>(parallel.buckets().size()));
      EXPECT_GT(report.buckets, 2);
      EXPECT_EQ(report.launched_in_backward, report.buckets);
      EXPECT_EQ(report.gradients, 8);
      EXPECT_LT(report.gradients_at_first_launch, report.gradients)
          << "the first all_reduce started after the last gradient";
    }
  });
}

TEST(DataParallel, buckets_follow_rank_0s_order_after_the_first_step) {
  std::mutex mutex;
  std::vector<std::vector<schedule::Bucket>> plans;
  run_ranks(3, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job,
                          {.first_bucket_bytes = 1, .bucket_bytes = 1});  // each gradient alone
    std::vector<int> order;
    for (const auto& bucket : parallel.buckets()) order.push_back(bucket.gradients[0]);
    EXPECT_EQ(order, (std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0}));
    loss_of(net, samples(0, 4), job.rank() != 0).backward();
    parallel.synchronize();
    const std::lock_guard lock(mutex);
    plans.push_back(parallel.buckets());
  });
  EXPECT_EQ(plans[0], plans[1]);
  EXPECT_EQ(plans[0], plans[2]);
  ASSERT_EQ(plans[0].size(), 8u);
  EXPECT_EQ(plans[0][6].gradients, (std::vector<int>{5}))
      << "what did not fire on rank 0 comes last";
  EXPECT_EQ(plans[0][7].gradients, (std::vector<int>{4}));
}

TEST(DataParallel, several_dtypes_and_odd_parameters_train_together) {
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

TEST(DataParallel, buffers_are_broadcast_averaged_or_left_alone) {
  struct Counting : nn::Module {
    Counting() {
      p = register_parameter("p", at::ones({2}, at::kDouble));
      mean = register_buffer("mean", at::zeros({3}, at::kDouble));
      small = register_buffer("small", at::zeros({2}, at::kFloat));
      count = register_buffer("count", at::zeros({}, at::kLong));
    }
    at::Tensor p, mean, small, count;
  };
  for (const BufferMode mode : {BufferMode::off, BufferMode::broadcast, BufferMode::average}) {
    run_ranks(3, [&](Job& job) {
      Counting net;
      DataParallel parallel(net, job, {.buffers = mode});
      const int rank = job.rank();
      parallel.weight(rank);  // rank 0 is a shadow
      net.mean.fill_(rank == 0 ? NAN : rank);
      net.small.fill_(rank);
      net.count.fill_(rank);
      if (rank > 0) net.p.sum().backward();
      EXPECT_TRUE(parallel.synchronize());
      const double expected = mode == BufferMode::off         ? rank
                              : mode == BufferMode::broadcast ? 1
                                                              : (1.0 * 1 + 2.0 * 2) / 3;
      if (mode != BufferMode::off || rank > 0) {
        EXPECT_NEAR(net.mean[1].item<double>(), expected, 1e-15);
      }
      EXPECT_NEAR(net.small[1].item<double>(), expected, 1e-6);
      EXPECT_EQ(net.count.item<int>(), mode == BufferMode::off ? rank : 1);
    });
  }
}

TEST(DataParallel, models_that_differ_are_refused_on_every_rank_with_the_first_difference) {
  int refused = 0;
  std::mutex mutex;
  run_ranks(3, [&](Job& job) {
    nn::Sequential model(nn::Linear(3, 4), nn::Linear(4, job.rank() == 2 ? 6 : 5));
    try {
      DataParallel parallel(model, job);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::mismatch);
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("'parameter 1.weight f32[5, 4]'"),
                        HasSubstr("'parameter 1.weight f32[6, 4]'"), HasSubstr("rank 2")));
      EXPECT_EQ(error.failure().ranks, (std::vector<int>{0, 2}));
      const std::lock_guard lock(mutex);
      ++refused;
    }
  });
  EXPECT_EQ(refused, 3);
  run_ranks(2, [&](Job& job) {  // a parameter more, and another option
    nn::Sequential model(nn::Linear(nn::LinearOptions(3, 4).bias(job.rank() == 1)));
    EXPECT_THROW(DataParallel(model, job), Error);
    nn::Sequential same(nn::Linear(3, 4));
    EXPECT_THROW(
        DataParallel(same, job, {.bucket_bytes = static_cast<std::size_t>(5 + job.rank())}), Error);
  });
}

TEST(DataParallel, models_that_cannot_be_trained_are_refused_with_a_remedy) {
  run_ranks(1, [&](Job& job) {
    nn::Sequential half(nn::Linear(3, 4));
    half->to(at::kHalf);
    EXPECT_THAT(misuse_of([&] { DataParallel(half, job); }),
                AllOf(HasSubstr("parameter 0.weight f16[4, 3]"), HasSubstr("torch::kFloat")));
    nn::Sequential none{nn::ReLU()};
    EXPECT_THAT(misuse_of([&] { DataParallel(none, job); }), HasSubstr("nothing to train"));
    nn::Module elsewhere;
    elsewhere.register_parameter("p", at::empty({3}, at::TensorOptions().device(at::kMeta)));
    EXPECT_THAT(misuse_of([&] { DataParallel(elsewhere, job); }), HasSubstr("host memory"));
  });
}

// Every misuse below is made by all ranks, as one program would; also in a world of one, where
// nothing could break.
void in_worlds(const std::function<void(Job&, Net&, DataParallel&)>& body) {
  for (int ranks : {1, 2}) {
    run_ranks(ranks, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job);
      body(job, net, parallel);
    });
  }
}

TEST(DataParallel, a_second_backward_before_synchronize_is_refused_and_the_step_can_still_end) {
  in_worlds([](Job& job, Net& net, DataParallel& parallel) {
    loss_of(net, samples(job.rank(), 4)).backward();
    const at::Tensor local = net.last->bias.grad();
    EXPECT_THAT(misuse_of([&] { loss_of(net, samples(1, 4)).backward(); }),
                AllOf(HasSubstr("second backward()"), HasSubstr("no_sync()")));
    EXPECT_THAT(misuse_of([&] { net.side->weight.sum().backward(); }),
                HasSubstr("second backward()"))
        << "of another parameter";
    EXPECT_TRUE(parallel.synchronize());
    Net one;
    if (job.world_size() == 1)
      loss_of(one, samples(0, 4)).backward();
    else
      ((loss_of(one, samples(0, 4)) + loss_of(one, samples(1, 4))) / 2).backward();
    expect_equal(grads_of(net), grads_of(one), 1e-12);
  });
}

TEST(DataParallel, an_optimizer_step_without_synchronize_is_seen_at_the_next_gradient) {
  for (const bool adam : {false, true}) {
    in_worlds([&](Job&, Net& net, DataParallel&) {
      torch::optim::Adam with_adam(net.parameters(), 0.01);
      auto with_sgd = sgd(net);
      auto& optimizer = adam ? static_cast<torch::optim::Optimizer&>(with_adam) : with_sgd;
      loss_of(net, samples(0, 4)).backward();
      optimizer.step();
      optimizer.zero_grad();
      EXPECT_THAT(misuse_of([&] { loss_of(net, samples(1, 4)).backward(); }),
                  AllOf(HasSubstr("optimizer stepped without synchronize()"),
                        HasSubstr("parallel.step(optimizer)")));
    });
  }
}

TEST(DataParallel, an_optimizer_step_without_synchronize_is_seen_at_synchronize) {
  for (const bool adam : {false, true}) {
    in_worlds([&](Job&, Net& net, DataParallel& parallel) {
      torch::optim::Adam with_adam(net.parameters(), 0.01);
      auto with_sgd = sgd(net);
      auto& optimizer = adam ? static_cast<torch::optim::Optimizer&>(with_adam) : with_sgd;
      loss_of(net, samples(0, 4)).backward();
      optimizer.step();
      EXPECT_THAT(misuse_of([&] { parallel.synchronize(); }),
                  HasSubstr("optimizer stepped without synchronize()"));
    });
  }
}

TEST(DataParallel, gradients_changed_before_they_are_averaged_are_refused) {
  in_worlds([](Job&, Net& net, DataParallel& parallel) {
    const std::vector<std::function<void()>> changes = {
        [&] { net.zero_grad(); }, [&] { net.zero_grad(false); },
        [&] { net.last->bias.mutable_grad() = at::ones({3}, at::kDouble); }};
    for (const auto& change : changes) {
      net.zero_grad();
      loss_of(net, samples(0, 4)).backward();
      change();
      EXPECT_THAT(misuse_of([&] { parallel.synchronize(); }), HasSubstr("after synchronize()"));
    }
    net.zero_grad();
    loss_of(net, samples(0, 4)).backward();
    EXPECT_TRUE(parallel.synchronize()) << "the next step is a good one";
  });
}

TEST(DataParallel, weights_are_told_before_a_step_and_by_all_ranks) {
  in_worlds([](Job&, Net& net, DataParallel& parallel) {
    EXPECT_THAT(misuse_of([&] { parallel.weight(-1); }), HasSubstr("number of samples"));
    EXPECT_THAT(misuse_of([&] { parallel.weight(NAN); }), HasSubstr("number of samples"));
    loss_of(net, samples(0, 4)).backward();
    EXPECT_THAT(misuse_of([&] { parallel.weight(3); }), HasSubstr("before the forward pass"));
    EXPECT_TRUE(parallel.synchronize());
    parallel.weight(3);
  });
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    if (job.rank() == 0) parallel.weight(4);
    loss_of(net, samples(0, 4)).backward();
    try {
      parallel.synchronize();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::mismatch);
      EXPECT_THAT(error.what(),
                  HasSubstr("rank 0 called DataParallel::weight() and rank 1 did not"));
    }
  });
}

TEST(DataParallel, no_sync_must_not_cross_a_step) {
  in_worlds([](Job&, Net& net, DataParallel& parallel) {
    {
      const auto paused = parallel.no_sync();
      loss_of(net, samples(0, 4)).backward();
      EXPECT_THAT(misuse_of([&] { parallel.synchronize(); }), HasSubstr("under no_sync()"));
      EXPECT_THAT(misuse_of([&] { (void)parallel.no_sync(); }), HasSubstr("already in force"));
    }
    loss_of(net, samples(0, 4)).backward();
    EXPECT_THAT(misuse_of([&] { (void)parallel.no_sync(); }), HasSubstr("end the step first"));
    EXPECT_TRUE(parallel.synchronize());
  });
}

TEST(DataParallel, gradients_that_cannot_be_carried_are_refused) {
  in_worlds([](Job&, Net& net, DataParallel&) {
    EXPECT_THAT(misuse_of([&] { loss_of(net, samples(0, 4)).backward({}, false, true); }),
                HasSubstr("create_graph"));
    net.zero_grad();
  });
  run_ranks(2, [](Job& job) {
    nn::Embedding embedding(nn::EmbeddingOptions(10, 4).sparse(true));
    DataParallel parallel(embedding, job);
    EXPECT_THAT(misuse_of([&] {
                  embedding->forward(torch::tensor({1, 2})).sum().backward();
                }),
                AllOf(HasSubstr("'weight'"), HasSubstr("sparse(false)")));
  });
}

TEST(DataParallel, the_model_outlives_it_and_its_gradients_stay) {
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

TEST(DataParallel, works_on_a_communicator_alone) {
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
