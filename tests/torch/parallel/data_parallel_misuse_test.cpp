// Calls that DataParallel refuses, and its texts.
#include <atomic>
#include <cmath>
#include <thread>

#include "paceline/torch/optimizers/optimizers.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(DataParallel, ModelsThatDifferAreRefusedOnEveryRankWithTheFirstDifference) {
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

TEST(DataParallel, OptionsThatDifferAreToldOneByOneWithBothValues) {
  run_ranks(3, [&](Job& job) {
    nn::Sequential model(nn::Linear(3, 4));
    DataParallelOptions options;
    if (job.rank() == 1) options.schedule = "priority";
    if (job.rank() == 2) options.buffers = BufferMode::average;
    if (job.rank() > 0) options.check_replicas_every = 10;
    try {
      DataParallel(model, job, options);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::mismatch);
      EXPECT_EQ(std::string(error.what()),
                "DataParallelOptions must be the same on all ranks, but buffers is 'broadcast' on "
                "rank 0 and 'average' on rank 2; check_replicas_every is '100' on rank 0 and '10' "
                "on rank 1; schedule is 'buckets' on rank 0 and 'priority' on rank 1. Make them in "
                "the same way on every rank");
      EXPECT_EQ(error.failure().ranks, (std::vector<int>{0, 1, 2}));
    }
    DataParallel(model, job);  // the group goes on
  });
}

TEST(DataParallel, ModelsThatCannotBeTrainedAreRefusedWithARemedy) {
  run_ranks(1, [&](Job& job) {
    nn::Sequential waves(nn::Linear(3, 4));
    waves->to(at::kComplexFloat);
    EXPECT_THAT(misuse_of([&] { DataParallel(waves, job); }),
                AllOf(HasSubstr("parameter 0.weight ComplexFloat[4, 3]"),
                      HasSubstr("at::view_as_complex"), ::testing::Not(HasSubstr("model.to("))));
    nn::Sequential none{nn::ReLU()};
    EXPECT_THAT(misuse_of([&] { DataParallel(none, job); }), HasSubstr("nothing to train"));
    nn::Module elsewhere;
    elsewhere.register_parameter("p", at::empty({3}, at::TensorOptions().device(at::kMeta)));
    EXPECT_THAT(misuse_of([&] { DataParallel(elsewhere, job); }),
                AllOf(HasSubstr("on meta"), HasSubstr("memory of the host or of a CUDA device")));
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

TEST(DataParallel, ASecondBackwardBeforeSynchronizeIsRefusedAndTheStepCanStillEnd) {
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
    if (job.world_size() == 1) loss_of(one, samples(0, 4)).backward();
    else ((loss_of(one, samples(0, 4)) + loss_of(one, samples(1, 4))) / 2).backward();
    expect_equal(grads_of(net), grads_of(one), 1e-12);
  });
}

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

template <typename Optimizer, typename Options>
MakeOptimizer maker_of(const Options& options) {
  return [options](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<Optimizer>(parameters, options);
  };
}

const std::vector<MakeOptimizer>& optimizers_that_step() {
  static const std::vector<MakeOptimizer> all = {
      maker_of<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9)),
      maker_of<torch::optim::Adam>(torch::optim::AdamOptions(0.01)),
      maker_of<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).weight_decay(0)),
      maker_of<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01)),
      maker_of<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01)),
      maker_of<optimizers::LAMB>(optimizers::LAMBOptions(0.01))};
  return all;
}

TEST(DataParallel, AnOptimizerThatStepsByItselfBeforeSynchronizeIsRefusedAtTheCall) {
  for (const MakeOptimizer& make : optimizers_that_step()) {
    run_ranks(2, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job, kSmallBuckets);
      const auto optimizer = make(net.parameters());
      for (int step = 0; step < 2; ++step) {
        optimizer->zero_grad();
        loss_of(net, samples(job.rank(), 4)).backward();
        const std::string before = sha256_of(net.parameters());
        try {
          optimizer->step();
          ADD_FAILURE() << "stepped";
        } catch (const std::exception& error) {
          EXPECT_THAT(error.what(),
                      AllOf(HasSubstr("'first.weight'"), HasSubstr("parallel.step(optimizer)"),
                            HasSubstr("parallel.synchronize()")));
        }
        EXPECT_EQ(sha256_of(net.parameters()), before);
        EXPECT_TRUE(parallel.step(*optimizer)) << "the step can still end";
      }
    });
  }
}

// AdamW shrinks the first parameter before it looks at its gradient.
TEST(DataParallel, AStepOfAdamwBeforeSynchronizeLeavesNumbersAndIsToldAgain) {
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(0.01));
    loss_of(net, samples(job.rank(), 4)).backward();
    EXPECT_THROW(optimizer.step(), c10::Error);
    for (const at::Tensor& parameter : net.parameters())
      EXPECT_TRUE(parameter.isfinite().all().item<bool>());
    EXPECT_THAT(misuse_of([&] { parallel.step(optimizer); }),
                HasSubstr("optimizer stepped without synchronize()"));
  });
}

TEST(DataParallel, AGradientThatIsAveragedTellsItsSizeAndRefusesToBeRead) {
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    loss_of(net, samples(job.rank(), 4)).backward();
    const at::Tensor grad = net.first->weight.grad();
    EXPECT_EQ(grad.sizes(), net.first->weight.sizes());
    EXPECT_EQ(grad.scalar_type(), at::kDouble);
    EXPECT_THROW((void)grad.norm(), c10::Error);
    EXPECT_THROW((void)grad.clone(), c10::Error);
    EXPECT_THROW(grad.mul(2), c10::Error);
    EXPECT_TRUE(parallel.synchronize());
    EXPECT_TRUE(net.first->weight.grad().isfinite().all().item<bool>());
  });
}

// One process has nothing to average.
TEST(DataParallel, AnOptimizerStepWithoutSynchronizeIsSeenByASingleProcess) {
  for (const bool at_next_gradient : {false, true}) {
    for (const MakeOptimizer& make : optimizers_that_step()) {
      run_ranks(1, [&](Job& job) {
        Net net;
        DataParallel parallel(net, job);
        const auto optimizer = make(net.parameters());
        loss_of(net, samples(0, 4)).backward();
        optimizer->step();
        if (at_next_gradient) optimizer->zero_grad();
        EXPECT_THAT(misuse_of([&] {
                      if (at_next_gradient) loss_of(net, samples(1, 4)).backward();
                      else parallel.synchronize();
                    }),
                    AllOf(HasSubstr("optimizer stepped without synchronize()"),
                          HasSubstr("parallel.step(optimizer)")));
      });
    }
  }
}

TEST(DataParallel, GradientsChangedBeforeTheyAreAveragedAreRefused) {
  in_worlds([](Job&, Net& net, DataParallel& parallel) {
    const std::vector<std::function<void()>> changes = {
        [&] { net.zero_grad(); }, [&] { net.zero_grad(false); },
        [&] { net.last->bias.mutable_grad() = at::ones({3}, at::kDouble); }};
    for (const auto& change : changes) {
      net.zero_grad();
      loss_of(net, samples(0, 4)).backward();
      try {
        change();
      } catch (const c10::Error& error) {  // it would have been written to
        EXPECT_THAT(error.what(), HasSubstr("after synchronize()"));
      }
      EXPECT_THAT(misuse_of([&] { parallel.synchronize(); }), HasSubstr("after synchronize()"));
    }
    net.zero_grad();
    loss_of(net, samples(0, 4)).backward();
    EXPECT_TRUE(parallel.synchronize()) << "the next step is a good one";
  });
}

TEST(DataParallel, WeightsAreToldBeforeAStepAndByAllRanks) {
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

TEST(DataParallel, NoSyncMustNotCrossAStep) {
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

TEST(DataParallel, GradientsThatCannotBeCarriedAreRefused) {
  in_worlds([](Job&, Net& net, DataParallel&) {
    EXPECT_THAT(misuse_of([&] { loss_of(net, samples(0, 4)).backward({}, false, true); }),
                HasSubstr("create_graph"));
    net.zero_grad();
  });
  run_ranks(2, [](Job& job) {  // sparse only by its functional form, which no module tells of
    nn::Module model;
    const at::Tensor table = model.register_parameter("table", at::ones({10, 4}));
    DataParallel parallel(model, job);
    EXPECT_THAT(
        misuse_of([&] {
          at::embedding(table, torch::tensor({1, 2}), -1, false, /*sparse=*/true).sum().backward();
        }),
        AllOf(HasSubstr("'table'"), HasSubstr("DataParallelOptions::sparse")));
    job.world().barrier().wait();  // the end of one rank would be what the other one hears
  });
}

// Rank 1 is alive, but does something else: before its step, or when it has begun it.
TEST(DataParallel, ARankThatDoesNotComeIsToldWithWhatWaitsForIt) {
  for (const bool has_begun : {false, true}) {
    std::atomic<bool> told = false;
    run_ranks(2, {.operation_timeout = std::chrono::seconds(2)}, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job, kSmallBuckets);
      if (job.rank() == 1) {
        if (has_begun) at::sum(net.last->bias).backward();  // its weight is told, and one gradient
        const Deadline deadline = Deadline::in(std::chrono::seconds(60));
        while (!told && !deadline.passed()) std::this_thread::yield();
        EXPECT_TRUE(told);
        return;
      }
      loss_of(net, samples(0, 4)).backward();
      for (int again = 0; again < 2; ++again) {
        try {
          parallel.synchronize();
          ADD_FAILURE() << "ended alone";
        } catch (const Error& error) {
          EXPECT_EQ(error.fault(), Fault::timed_out);
          EXPECT_THAT(error.what(), HasSubstr("rank 1"));
          if (has_begun) EXPECT_THAT(error.what(), HasSubstr("which parameters they used"));
          else EXPECT_THAT(error.what(), HasSubstr("told their weights"));
        }
      }
      told = true;
    });
  }
}

}  // namespace
}  // namespace paceline
