// Sharding changes no bit of a training, whatever its stage, and keeps what holds at stage 0.
#include "paceline/torch/shard/sharded_averaging.h"

#include "tests/support/nightly.h"
#include "tests/torch/shard/sharded_training.h"

namespace paceline {
namespace {

using namespace sharded_tests;
using Steps =
    std::function<void(DataParallel&, nn::Sequential&, torch::optim::Optimizer&, int rank)>;

void plain_steps(DataParallel& parallel, nn::Sequential& model, torch::optim::Optimizer& optimizer,
                 int rank) {
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    loss_of(model, step, rank).backward();
    parallel.step(optimizer);
  }
}

// The day sees every stage, with each type, model, optimizer and number of ranks; the night sees
// all.
TEST(ShardedAveraging, ChangesNoBit) {
  const std::vector<std::string> optimizers = {"sgd", "momentum", "adam", "adamw"};
  std::size_t turn = 0;
  for (const bool is_cnn : {false, true}) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      for (const std::string& optimizer : optimizers) {
        for (const int ranks : {2, 3, 4}) {
          ++turn;
          const bool is_chosen = turn % 5 == 1;
          if (!test::is_nightly() && !is_chosen) continue;
          const auto make = [=] { return is_cnn ? cnn(type) : mlp(type); };
          const LocalWorldOptions world{.share_memory = turn % 2 == 0};
          const std::string want =
              digest_after<nn::Sequential>(ranks, {}, optimizer, make, Steps(plain_steps));
          for (std::size_t s = 0; s < kSharded.size(); ++s) {
            if (!test::is_nightly() && (s + turn / 5) % 2 == 0) continue;
            EXPECT_EQ(digest_after<nn::Sequential>(ranks, kSharded[s], optimizer, make,
                                                   Steps(plain_steps), world),
                      want)
                << kSharded[s] << ", " << optimizer << ", " << ranks << " ranks, "
                << (is_cnn ? "cnn " : "mlp ") << type;
          }
        }
      }
    }
  }
}

void expect_as_at_stage_0(int ranks, const Steps& steps,
                          const std::function<void(DataParallelOptions&)>& adjust = {}) {
  const auto make = [] { return mlp(at::kDouble); };
  const std::string want = digest_after<nn::Sequential>(ranks, {}, "adam", make, steps, {}, adjust);
  for (const Stage& stage : kSharded) {
    EXPECT_EQ(digest_after<nn::Sequential>(ranks, stage, "adam", make, steps, {}, adjust), want)
        << stage;
  }
}

TEST(ShardedAveraging, WeighsUnevenBatchesAsAtStage0) {
  expect_as_at_stage_0(3, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const int rows = 1 + (rank + step) % 3;
      parallel.weight(rows);
      loss_of(model, step, rank, rows).backward();
      parallel.step(optimizer);
    }
  });
}

TEST(ShardedAveraging, AccumulatesUnderNoSyncAsAtStage0) {
  expect_as_at_stage_0(2, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      {
        const auto paused = parallel.no_sync();
        for (int k = 0; k < 2; ++k) (loss_of(model, 3 * step + k, rank) / 3).backward();
      }
      (loss_of(model, 3 * step + 2, rank) / 3).backward();
      parallel.step(optimizer);
    }
  });
}

TEST(ShardedAveraging, AccumulatesPassesOfAStepAsAtStage0) {
  expect_as_at_stage_0(
      2,
      [](auto& parallel, auto& model, auto& optimizer, int rank) {
        for (int step = 0; step < 3; ++step) {
          optimizer.zero_grad();
          const int passes = step == 1 ? 1 : 2;  // a window that ends early
          for (int k = 0; k < passes; ++k) loss_of(model, 2 * step + k, rank).backward();
          parallel.step(optimizer);
        }
      },
      [](DataParallelOptions& options) { options.backward_passes_per_step = 2; });
}

// Ranks have 1, 2, ... batches: also in the first step of the sharded order, when nothing of it is
// known, some rank may have none.
TEST(ShardedAveraging, JoinsRanksWithoutABatchAsAtStage0) {
  expect_as_at_stage_0(3, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    std::vector<int> batches;
    for (int step = 0; step < 2 * rank; ++step) batches.push_back(step);
    int turns = 0;
    for (auto turn : parallel.join(batches)) {
      ++turns;
      optimizer.zero_grad();
      if (turn) loss_of(model, *turn, rank).backward();
      parallel.step(optimizer);
    }
    EXPECT_EQ(turns, 5);
  });
}

TEST(ShardedAveraging, StepsOfTheCallersOwnOptimizerAreSeen) {
  expect_as_at_stage_0(2, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(model, step, rank).backward();
      parallel.synchronize();
      optimizer.step();
    }
  });
}

// After its own step a rank has new values of its pieces alone.
TEST(ShardedAveraging, MemoryThatIsNewInPartIsRefusedToWhoReadsPastOperators) {
  for (const int stage : {1, 2}) {
    test::run_ranks(2, [&](Job& job) {
      nn::Sequential model = mlp(at::kDouble);
      DataParallel parallel(model, job, options_of({stage}));
      const auto optimizer = optimizer_of("sgd", parallel.parameters());
      const at::Tensor weight = model->parameters().front();
      loss_of(model, 0, job.rank()).backward();
      parallel.synchronize();
      EXPECT_NO_THROW((void)weight.const_data_ptr()) << "nothing has changed yet";
      optimizer->step();
      try {
        (void)weight.const_data_ptr();
        ADD_FAILURE() << "it was read";
      } catch (const c10::Error& error) {
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("other ranks' updates"),
                                                 testing::HasSubstr("parallel.save(file)")));
      }
      (void)weight.norm();
      EXPECT_NO_THROW((void)weight.const_data_ptr()) << "an operator's read gathers";
    });
  }
}

TEST(ShardedAveraging, LeavesThatAreWrittenBetweenTwoStepsAreRefusedByName) {
  for (const int stage : {1, 2}) {
    test::run_ranks(2, [&](Job& job) {
      nn::Sequential model = mlp(at::kDouble);
      DataParallelOptions options = options_of({stage});
      options.check_replicas_every = 0;  // it would see that the replicas differ, and not why
      DataParallel parallel(model, job, options);
      const auto optimizer = optimizer_of("sgd", parallel.parameters());
      const auto step = [&](int k) {
        optimizer->zero_grad();
        loss_of(model, k, job.rank()).backward();
        parallel.step(*optimizer);
      };
      step(0);
      {
        const at::NoGradGuard no_grad;
        for (const at::Tensor& leaf : parallel.parameters()) leaf.mul_(0.5);
      }
      EXPECT_THAT(misuse_of([&] { step(1); }),
                  testing::AllOf(testing::HasSubstr("parallel.parameters()"),
                                 testing::HasSubstr("write into the model's own parameters")));
    });
  }
}

// Tied and unused parameters stand in the root, and step counts are each tensor's own: Adam moves
// nothing that has no gradient.
TEST(ShardedAveraging, LeavesUnusedParametersAsTheyAreAsAtStage0) {
  const auto steps = [](DataParallel& parallel, Tree& model, torch::optim::Optimizer& optimizer,
                        int rank) {
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      const bool use_side = step < 2 ? rank == 0 : step == 4;  // some ranks, none, all
      loss_of(model, step, rank, use_side).backward();
      parallel.step(optimizer);
    }
  };
  const auto make = [] { return Tree(); };
  for (const char* const optimizer : {"momentum", "adam"}) {
    const std::string want = digest_after<Tree>(2, {}, optimizer, make, steps);
    for (const Stage& stage : kSharded)
      EXPECT_EQ(digest_after<Tree>(2, stage, optimizer, make, steps), want) << stage;
  }
}

// Groups of options are made by the names of parameters.
TEST(ShardedAveraging, GroupsOfOptionsFollowNames) {
  std::string want;
  for (const Stage& stage : std::vector<Stage>{{0, 1}, {2, 1}, {3, 1}}) {
    std::vector<nn::Sequential> models = {mlp(at::kDouble), mlp(at::kDouble)};
    test::run_ranks(2, [&](Job& job) {
      nn::Sequential& model = models[static_cast<std::size_t>(job.rank())];
      DataParallel parallel(model, job, options_of(stage));
      std::vector<at::Tensor> biases, weights;
      for (const auto& item : model->named_parameters()) {
        const bool is_bias = item.key().find("bias") != std::string::npos;
        for (const at::Tensor& leaf : parallel.parameters(item.key()))
          (is_bias ? biases : weights).push_back(leaf);
      }
      EXPECT_EQ(biases.size() + weights.size(), parallel.parameters().size());
      EXPECT_THAT(misuse_of([&] { (void)parallel.parameters("9.weight"); }),
                  testing::HasSubstr("9.weight"));
      torch::optim::AdamW optimizer({torch::optim::OptimizerParamGroup(weights)},
                                    torch::optim::AdamWOptions(0.01).weight_decay(0.3));
      optimizer.add_param_group(torch::optim::OptimizerParamGroup(
          biases, std::make_unique<torch::optim::AdamWOptions>(
                      torch::optim::AdamWOptions(0.02).weight_decay(0))));
      plain_steps(parallel, model, optimizer, job.rank());
      const auto whole = parallel.gathered();
      if (job.rank() == 0 && want.empty()) want = digest_of(*model);
      if (job.rank() == 0) {
        EXPECT_EQ(digest_of(*model), want) << stage;
      }
    });
  }
}

TEST(ShardedAveraging, ClipsByTheNormOfOneProcess) {
  std::vector<nn::Sequential> models;
  for (int i = 0; i < 4; ++i) models.push_back(mlp(at::kDouble));
  nn::Sequential& one = models[3];
  ((loss_of(one, 0, 0) + loss_of(one, 0, 1) + loss_of(one, 0, 2)) / 3).backward();
  const double norm = clip_grad_norm(one->parameters(), 1e9);
  for (const Stage& stage : kSharded) {
    std::vector<double> norms(3);
    test::run_ranks(3, [&](Job& job) {
      const auto rank = static_cast<std::size_t>(job.rank());
      DataParallel parallel(models[rank], job, options_of(stage));
      loss_of(models[rank], 0, job.rank()).backward();
      parallel.synchronize();
      norms[rank] = parallel.clip_grad_norm(norm / 2);
      EXPECT_NEAR(norms[rank] / norm, 1, 1e-10) << stage;
      const double clipped = norm / 2 / (norm + 1e-6) * norm;
      EXPECT_NEAR(parallel.clip_grad_norm(1e9) / clipped, 1, 1e-10);
    });
    EXPECT_TRUE(norms[0] == norms[1] && norms[1] == norms[2]);
  }
}

// Stage 0 sends vectors as they are, and its first step, whose gradients are zeros here.
TEST(ShardedAveraging, SendsGradientsIn16BitsWithTheBitsOfStage0) {
  const Steps steps = [](auto& parallel, auto& model, auto& optimizer, int rank) {
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      (loss_of(model, step, rank) * (step == 0 ? 0 : 1)).backward();
      parallel.step(optimizer);
    }
  };
  const auto make = [] {
    torch::manual_seed(8);
    const auto matrix = [](int in, int out) {
      return nn::Linear(nn::LinearOptions(in, out).bias(false));
    };
    return nn::Sequential(nn::Flatten(), matrix(25, 37), nn::Tanh(), matrix(37, 41), nn::Tanh(),
                          matrix(41, 5));
  };
  for (const std::string compression : {"fp16", "bf16"}) {
    const auto sends = [](const std::string& text) {
      return [text](DataParallelOptions& options) {
        options.compression = text;
        options.static_order = true;
      };
    };
    for (const int ranks : {2, 3, 4}) {
      const std::string want = digest_after<nn::Sequential>(
          ranks, {}, "adam", make, steps, {}, sends(compression + ":min_compress_bytes=0"));
      for (const Stage& stage : kSharded) {
        const LocalWorldOptions world{.share_memory = stage.prefetch == 1};
        EXPECT_EQ(digest_after<nn::Sequential>(ranks, stage, "adam", make, steps, world,
                                               sends(compression)),
                  want)
            << stage << ", " << compression << ", " << ranks << " ranks";
      }
    }
  }
}

// The gradient that overflows is a small one, which one rank alone owns.
TEST(ShardedAveraging, LeavesOutAStepThatOverflowsIn16BitsOnAllRanks) {
  for (const Stage& stage : kSharded) {
    std::vector<nn::Sequential> models = {mlp(at::kFloat), mlp(at::kFloat)};
    test::run_ranks(2, [&](Job& job) {
      nn::Sequential& model = models[static_cast<std::size_t>(job.rank())];
      DataParallelOptions options = options_of(stage);
      options.compression = "fp16";
      DataParallel parallel(model, job, options);
      const auto optimizer = optimizer_of("adam", parallel.parameters());
      const auto digest = [&] {
        const auto whole = parallel.gathered();
        return digest_of(*model);
      };
      for (int step = 0; step < 4; ++step) {
        const std::string before = digest();
        const bool overflows = step == 2;
        at::Tensor loss = loss_of(model, step, job.rank());
        if (overflows && job.rank() == 1) loss = loss + 1e9 * model->parameters().back().sum();
        loss.backward();
        parallel.step(*optimizer);
        EXPECT_EQ(parallel.last_step().overflowed, overflows) << stage;
        EXPECT_EQ(digest() == before, overflows) << stage;
        for (const at::Tensor& leaf : parallel.parameters())
          EXPECT_EQ(leaf.grad().defined(), !overflows) << stage;
      }
    });
  }
}

// Ranks own nothing of a parameter that is smaller than a piece.
TEST(ShardedAveraging, MoreRanksThanElementsTrain) {
  const auto make = [] {
    torch::manual_seed(1);
    nn::Sequential model(nn::Flatten(), nn::Linear(25, 5));
    model->to(at::kDouble);
    return model;
  };
  const std::string want = digest_after<nn::Sequential>(4, {}, "adam", make, Steps(plain_steps));
  for (const Stage& stage : kSharded)
    EXPECT_EQ(digest_after<nn::Sequential>(4, stage, "adam", make, Steps(plain_steps)), want);
}

TEST(ShardedAveraging, GivesTheModelBack) {
  for (const Stage& stage : kSharded) {
    std::vector<nn::Sequential> models = {mlp(at::kFloat), mlp(at::kFloat)};
    std::vector<std::string> digests(2);
    test::run_ranks(2, [&](Job& job) {
      const auto rank = static_cast<std::size_t>(job.rank());
      {
        DataParallel parallel(models[rank], job, options_of(stage));
        const auto optimizer = optimizer_of("sgd", parallel.parameters());
        plain_steps(parallel, models[rank], *optimizer, job.rank());
        const auto whole = parallel.gathered();
        digests[rank] = digest_of(*models[rank]);
      }
      EXPECT_EQ(digest_of(*models[rank]), digests[rank]);
      loss_of(models[rank], 9, 0).backward();
    });
    EXPECT_EQ(digest_of(*models[0]), digests[1]) << "after the job";
  }
}

}  // namespace
}  // namespace paceline
