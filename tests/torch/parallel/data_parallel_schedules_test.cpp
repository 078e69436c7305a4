// DataParallel by every schedule and with compression.
#include <chrono>
#include <thread>

#include "paceline/core/compress/methods/method_catalogue.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/core/server/server.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

const LocalWorldOptions kTcp = {.share_memory = false};

OptimizerFactory momentum() {
  return [](const at::Tensor& parameter) {
    return std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{parameter},
                                               torch::optim::SGDOptions(0.1).momentum(0.9));
  };
}

void set_rate(torch::optim::Optimizer& optimizer, int step) {
  optimizer.param_groups()[0].options().set_lr(0.1 / (1 + step));
}

std::vector<std::string> schedules() {
  std::vector<std::string> names;
  for (const schedule::Policy& policy : schedule::policies()) names.emplace_back(policy.name);
  return names;
}

// The fingerprint of the parameters after some steps, the same on all ranks. The side branch is
// used by some ranks in some steps, and rank 0 has no batch in the last one but one.
std::string trained(int ranks, const DataParallelOptions& options, int servers = 0) {
  constexpr int kSteps = 9;
  SameEverywhere same;
  std::string digest;
  LocalWorldOptions world = kTcp;
  world.servers = servers;
  run_ranks(ranks, world, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    Net net(at::kFloat);
    DataParallel parallel(net, job, options);
    auto optimizer = sgd(net);
    for (int step = 0; step < kSteps; ++step) {
      const bool has_batch = ranks == 1 || job.rank() > 0 || step + 2 != kSteps;
      parallel.weight(has_batch ? 1 + (job.rank() + step) % 3 : 0);
      if (!options.optimizer) optimizer.zero_grad();
      if (has_batch)
        loss_of(net, samples(step * ranks + job.rank(), 4), (job.rank() + step) % 4 == 0)
            .backward();
      if (options.optimizer) {
        EXPECT_TRUE(parallel.step([=](auto& one) { set_rate(one, step); }));
      } else {
        set_rate(optimizer, step);
        EXPECT_TRUE(parallel.step(optimizer));
      }
      EXPECT_FALSE(parallel.last_step().overflowed);
    }
    if (options.optimizer) parallel.finish();
    same.tell("parameters", net.parameters());
    if (job.rank() == 0) digest = sha256_of(net.parameters());
  });
  return digest;
}

TEST(DataParallel, EveryScheduleEndsWithTheSameBitsAlsoAcrossTheBarrier) {
  for (const int ranks : {1, 2, 3}) {
    const std::string expected = trained(ranks, kSmallBuckets);
    for (const std::string& name : schedules()) {
      for (const bool own_optimizers : {false, true}) {
        auto options = kSmallBuckets;
        options.schedule = name;
        if (own_optimizers) options.optimizer = momentum();
        EXPECT_EQ(trained(ranks, options), expected)
            << name << (own_optimizers ? ", own optimizers, " : ", ") << ranks << " ranks";
      }
    }
  }
}

TEST(DataParallel, GradientsOnServersHaveTheSameBitsByEveryScheduleAlsoAcrossTheBarrier) {
  constexpr int kRanks = 2, kServers = 2;
  const std::string expected = trained(kRanks, kSmallBuckets);
  for (const std::string& name : schedules()) {
    for (const char* aggregate : {"server", "automatic"}) {
      for (const bool own_optimizers : {false, true}) {
        auto options = kSmallBuckets;
        options.schedule = name;
        options.aggregate = aggregate;
        if (own_optimizers) options.optimizer = momentum();
        EXPECT_EQ(trained(kRanks, options, kServers), expected)
            << name << ", " << aggregate << (own_optimizers ? ", own optimizers" : "");
      }
    }
  }
}

TEST(DataParallel, APlainScheduleEqualsOneProcessInFp64) {
  Net one;
  loss_of(one, samples(0, 12)).backward();
  for (const std::string name : {"barrier", "wait_free"}) {
    run_ranks(3, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job, {.schedule = name});
      for (int step = 0; step < 3; ++step) {
        net.zero_grad();
        const std::int64_t begin = std::vector<int>{0, 1, 4}[static_cast<std::size_t>(job.rank())],
                           end = std::vector<int>{1, 4, 12}[static_cast<std::size_t>(job.rank())];
        parallel.weight(static_cast<double>(end - begin));
        loss_of(net, samples(0, 12).rows(begin, end)).backward();
        parallel.synchronize();
        expect_equal(grads_of(net), grads_of(one), 1e-12);
        EXPECT_EQ(parallel.last_step().buckets, name == "barrier" && step > 0 ? 1
                                                : step > 0                    ? 8
                                                                              : 1);
      }
    });
  }
}

// The same in each run.
void set_parameters(const nn::Module& net) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  const at::NoGradGuard no_grad;
  for (auto& p : net.parameters())
    p.copy_(at::randn(p.sizes(), generator, at::TensorOptions()).mul_(0.2));
}

TEST(DataParallel, WithEveryCompressionAllReplicasStayTheSameAndItLearns) {
  for (const compress::Method& method : compress::built_in_methods()) {
    for (const std::string name : {"buckets", "wait_free"}) {
      SameEverywhere same;
      run_ranks(2, kTcp, [&](Job& job) {
        nn::Sequential net(nn::Linear(6, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(),
                           nn::Linear(64, 3));
        set_parameters(*net);
        DataParallel parallel(
            net, job,
            {.schedule = name,
             .compression = std::string(method.name) + ":min_compress_bytes=1024"});
        // A sign is as long as any other: without error feedback it needs short steps.
        const double rate = method.name == "sign" ? 0.0005 : 0.02;
        torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(rate));
        const auto loss = [&] {
          const Samples all = samples(0, 16).rows(8 * job.rank(), 8 * job.rank() + 8);
          return at::mse_loss(net->forward(all.x.to(at::kFloat)), all.y.to(at::kFloat));
        };
        double first = 0, last = 0;
        for (int step = 0; step < 60; ++step) {
          optimizer.zero_grad();
          at::Tensor now = loss();
          (step == 0 ? first : last) = now.item<double>();
          now.backward();
          parallel.step(optimizer);
        }
        EXPECT_LT(last, first) << method.name << ", " << name;
        same.tell("parameters", net->parameters());
      });
    }
  }
}

TEST(DataParallel, MeasuredSchedulesCarryCompressedGradientsAlsoAcrossTheBarrier) {
  for (const std::string name : {"merged", "priority", "general"}) {
    SameEverywhere same;
    run_ranks(2, kTcp, [&](Job& job) {
      Net net(at::kFloat);
      DataParallel parallel(
          net, job,
          {.schedule = name, .compression = "int8:min_compress_bytes=0", .optimizer = momentum()});
      for (int step = 0; step < 8; ++step) {
        loss_of(net, samples(2 * step + job.rank(), 4)).backward();
        parallel.step();
      }
      parallel.finish();
      same.tell("parameters", net.parameters());
    });
  }
}

TEST(DataParallel, UnevenWeightsCountUnderCompressionAsWithout) {
  const auto mean_of = [](const std::string& compression) {
    std::vector<at::Tensor> grads;
    run_ranks(3, [&](Job& job) {
      Net net(at::kFloat);
      DataParallel parallel(net, job, {.compression = compression});
      for (int step = 0; step < 4; ++step) {
        net.zero_grad();
        parallel.weight((job.rank() + step) % 3 * 40);
        if ((job.rank() + step) % 3 > 0) loss_of(net, samples(job.rank(), 4)).backward();
        parallel.synchronize();
      }
      if (job.rank() == 0) grads = grads_of(net);
    });
    return grads;
  };
  expect_equal(mean_of("fp16:min_compress_bytes=0"), mean_of("none"), 2e-3);
}

// The residuals, which go from step to step, are equal too. Powers of two round nothing.
TEST(DataParallel, TheUnitOfWeightsChangesNoBitUnderAnyCompression) {
  for (const compress::Method& method : compress::built_in_methods()) {
    const auto trained_with = [&](double unit) {
      std::string digest;
      run_ranks(2, [&](Job& job) {
        Net net(at::kFloat);
        DataParallel parallel(net, job,
                              {.compression = std::string(method.name) + ":min_compress_bytes=0"});
        torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.01));
        for (int step = 0; step < 5; ++step) {
          optimizer.zero_grad();
          parallel.weight(unit);
          loss_of(net, samples(2 * step + job.rank(), 4)).backward();
          parallel.step(optimizer);
        }
        if (job.rank() == 0) digest = sha256_of(net.parameters());
      });
      return digest;
    };
    EXPECT_EQ(trained_with(64), trained_with(1)) << method.name;
  }
}

TEST(DataParallel, AStepThatOverflowsInACodecIsLeftOutOnAllRanks) {
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net(at::kFloat);
    DataParallel parallel(net, job, {.compression = "fp16:min_compress_bytes=0"});
    auto optimizer = sgd(net);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const std::string before = sha256_of(net.parameters());
      const bool overflows = step == 2;
      const double scale = overflows && job.rank() == 1 ? 1e9 : 1;
      (loss_of(net, samples(step, 4)) * scale).backward();
      EXPECT_TRUE(parallel.step(optimizer));
      EXPECT_EQ(parallel.last_step().overflowed, overflows);
      EXPECT_EQ(sha256_of(net.parameters()) == before, overflows);
      EXPECT_EQ(net.last->weight.grad().defined(), !overflows);
      same.tell(c10::str("step ", step), net.parameters());
    }
  });
}

TEST(DataParallel, AScheduleIsPlannedAnewWhenStepsTakeAnotherTime) {
  using namespace std::chrono_literals;
  run_ranks(2, [](Job& job) {
    Net net(at::kFloat);
    DataParallel parallel(net, job, {.schedule = "merged"});
    int step = 0;
    net.last->weight.register_hook([&step](const at::Tensor&) {
      if (step > 60) std::this_thread::sleep_for(10ms);
    });
    for (; step < 120; ++step) {
      net.zero_grad();
      loss_of(net, samples(step, 4)).backward();
      parallel.synchronize();
      EXPECT_EQ(parallel.last_step().plans > 0, step >= 4);
    }
    EXPECT_GE(parallel.last_step().plans, 2);
  });
}

TEST(DataParallel, WhatAScheduleOrCompressionCannotBeIsToldBeforeTheFirstStep) {
  struct Mixed : Net {
    Mixed() : Net(at::kFloat) { register_parameter("wide", at::ones({2}, at::kDouble)); }
  };
  run_ranks(2, [](Job& job) {
    Net f64, f32(at::kFloat);
    Mixed mixed;
    const auto told = [&](nn::Module& net, DataParallelOptions options) {
      return misuse_of([&] { DataParallel(net, job, options); });
    };
    EXPECT_THAT(told(f32, {.schedule = "wait_fre"}),
                AllOf(HasSubstr("'wait_fre'"), HasSubstr("wait_free"), HasSubstr("buckets")));
    EXPECT_THAT(told(f32, {.compression = "fp61"}), AllOf(HasSubstr("'fp61'"), HasSubstr("fp16")));
    EXPECT_THAT(told(f32, {.compression = "top_k:ratio=2"}), HasSubstr("ratio of top_k"));
    EXPECT_THAT(told(f64, {.compression = "fp16"}),
                AllOf(HasSubstr("'first.weight'"), HasSubstr("model.to(torch::kFloat)")));
    EXPECT_THAT(told(mixed, {.schedule = "barrier"}), HasSubstr("'wide'"));
    EXPECT_THAT(told(f32, {.static_order = true, .schedule = "merged"}), HasSubstr("static_order"));
  });
  run_ranks(2, [](Job& job) {
    Net net(at::kFloat);
    try {
      DataParallel(net, job, {.schedule = job.rank() == 0 ? "barrier" : "wait_free"});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::mismatch);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("schedule is 'barrier'"), HasSubstr("wait_free")));
    }
  });
}

TEST(DataParallel, StepsOfItsOwnNeedOptimizersAndLeaveNoNormToClip) {
  run_ranks(2, [](Job& job) {
    Net net(at::kFloat);
    DataParallel parallel(net, job);
    EXPECT_THAT(misuse_of([&] { parallel.step(); }), HasSubstr("DataParallelOptions::optimizer"));
  });
  run_ranks(2, [](Job& job) {
    Net net(at::kFloat);
    DataParallel parallel(net, job, {.schedule = "priority", .optimizer = momentum()});
    for (int step = 0; step < 6; ++step) {
      loss_of(net, samples(step, 4)).backward();
      parallel.step();
    }
    EXPECT_THAT(misuse_of([&] { parallel.clip_grad_norm(1); }), HasSubstr("crosses the barrier"));
    parallel.finish();
  });
}

// The output of ranks that train some steps.
std::string printed_by(const std::string& schedule, const std::string& compression) {
  ::testing::internal::CaptureStderr();
  run_ranks(2, kTcp, [&](Job& job) {
    Net net(at::kFloat);
    DataParallel parallel(net, job, {.schedule = schedule, .compression = compression});
    auto optimizer = sgd(net);
    for (int step = 0; step < 7; ++step) {
      loss_of(net, samples(step * 2 + job.rank(), 4)).backward();
      parallel.step(optimizer);
    }
    EXPECT_GT(parallel.last_step().plans, 0);
  });
  return ::testing::internal::GetCapturedStderr();
}

TEST(DataParallel, AChoiceOfCodecsThatMayDifferFromRunToRunIsToldOnce) {
  const std::string codec = "int8:min_compress_bytes=0";
  const std::string told = printed_by("general", codec);
  EXPECT_THAT(told, AllOf(HasSubstr("results may differ from run to run"), HasSubstr("int8:"),
                          HasSubstr("paceline::Checkpoints"), HasSubstr("'merged'")));
  const std::string uncompressed = "paceline: compression int8: 4 of 8 tensors travel uncompressed";
  EXPECT_THAT(told, HasSubstr(uncompressed));
  EXPECT_EQ(std::ranges::count(told, '\n'), 2);
  EXPECT_EQ(printed_by("general", "none"), "");
  const std::string of_merged = printed_by("merged", codec);
  EXPECT_THAT(of_merged, HasSubstr(uncompressed));
  EXPECT_EQ(std::ranges::count(of_merged, '\n'), 1);
}

}  // namespace
}  // namespace paceline
