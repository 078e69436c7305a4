// Steps that a scale decides on: skipped by all ranks or by none.
#include "paceline/torch/precision/loss_scaling.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/torch/precision/small_model.h"

namespace paceline {
namespace {

using enum ParallelStyle;
using test::run_ranks;

const char* const kHalves[] = {"o1:dtype=fp16,scale=8192", "o2:dtype=fp16,scale=8192"};

void make_step(DataParallel& parallel, nn::Sequential& model, torch::optim::Adam& adam, int seed) {
  adam.zero_grad();
  parallel.backward(loss_of(parallel, model, seed));
  ASSERT_TRUE(parallel.step(adam));
}

// Rank 1's gradient of the first parameter is infinite in one step of a training.
void expect_skipped_by_all(DataParallel& parallel, nn::Sequential& model, Job& job, int replica) {
  auto adam = adam_of(parallel);
  make_step(parallel, model, adam, replica);
  const std::string before = digest_of(parallel, model);
  const double scale = scale_of(parallel);
  const std::int64_t steps = steps_of(adam);
  EXPECT_EQ(steps, 1);
  at::Tensor first = model->parameters()[0];
  const auto hook = first.register_hook([&](const at::Tensor& gradient) {
    return job.rank() == 1 ? gradient * std::numeric_limits<double>::infinity() : gradient;
  });
  make_step(parallel, model, adam, 2 + replica);
  EXPECT_EQ(digest_of(parallel, model), before) << "rank " << job.rank();
  EXPECT_EQ(scale_of(parallel), scale / 2) << "rank " << job.rank();
  EXPECT_EQ(steps_of(adam), steps) << "rank " << job.rank();
  EXPECT_TRUE(parallel.last_step().overflowed);
  first.remove_hook(hook);
  make_step(parallel, model, adam, 4 + replica);
  EXPECT_NE(digest_of(parallel, model), before);
  EXPECT_EQ(steps_of(adam), steps + 1);
  EXPECT_FALSE(parallel.last_step().overflowed);
}

TEST(LossScaling, AnInfinityOfOneReplicaStopsTheUpdateOfAll) {
  for (const std::string precision : kHalves) {
    for (const double max_norm : {0.0, 0.5}) {
      run_ranks(2, [&](Job& job) {
        nn::Sequential model = small_model();
        DataParallel parallel(model, job, {.precision = precision, .max_grad_norm = max_norm});
        expect_skipped_by_all(parallel, model, job, job.rank());
      });
    }
  }
}

TEST(LossScaling, AnInfinityInOnePartOfALayerStopsTheUpdateOfAll) {
  for (const std::string precision : kHalves) {
    for (const auto& [layout, ranks] : {std::pair("tp=2", 2), std::pair("dp=2,tp=2", 4)}) {
      run_ranks(ranks, [&](Job& job) {
        DeviceMesh mesh(job, layout);
        nn::Sequential model = small_model();
        parallelize(*model, mesh, {{"0", column}, {"2", row}});
        DataParallel parallel(model, mesh, {.precision = precision, .max_grad_norm = 0.5});
        expect_skipped_by_all(parallel, model, job, mesh.rank("dp"));
      });
    }
  }
}

TEST(LossScaling, AnInfinityInOnePieceOfADividedStateStopsTheUpdateOfAll) {
  for (const int zero_stage : {1, 2, 3}) {
    for (const auto& [layout, ranks] : {std::pair("dp=2", 2), std::pair("dp=2,tp=2", 4)}) {
      run_ranks(ranks, [&](Job& job) {
        DeviceMesh mesh(job, layout);
        nn::Sequential model = small_model();
        parallelize(*model, mesh, {{"0", column}, {"2", row}});
        DataParallel parallel(
            model, mesh, {.precision = kHalves[0], .max_grad_norm = 0.5, .zero_stage = zero_stage});
        expect_skipped_by_all(parallel, model, job, mesh.rank("dp"));
      });
    }
  }
}

TEST(LossScaling, TheScaleGrowsAfterExactlySoManyGoodSteps) {
  run_ranks(2, [&](Job& job) {
    nn::Sequential model = small_model();
    DataParallel parallel(model, job, {.precision = "o2:dtype=fp16,scale=64,interval=3"});
    auto adam = adam_of(parallel);
    const double expected[] = {64, 64, 128, 128, 128, 256, 256};
    for (int step = 0; step < 7; ++step) {
      make_step(parallel, model, adam, 10 * step + job.rank());
      EXPECT_EQ(scale_of(parallel), expected[step]) << "step " << step;
    }
  });
}

TEST(LossScaling, OneScaleAndItsDoubleMakeTheSameBits) {
  for (const std::string mode : {"o1", "o2"}) {
    std::vector<std::string> digests;
    for (const std::string scale : {"8192", "16384"}) {
      run_ranks(2, [&](Job& job) {
        nn::Sequential model = small_model();
        DataParallel parallel(
            model, job, {.precision = mode + ":dtype=fp16,scale=" + scale, .max_grad_norm = 0.2});
        auto adam = adam_of(parallel);
        for (int step = 0; step < 6; ++step)
          make_step(parallel, model, adam, 10 * step + job.rank());
        EXPECT_FALSE(parallel.last_step().overflowed);
        if (job.rank() == 0) digests.push_back(digest_of(parallel, model));
      });
    }
    EXPECT_EQ(digests[0], digests[1]) << mode;
  }
}

template <typename Call>
void expect_misuse(const std::string& part, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was refused: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(LossScaling, ASecondUnscaleIsRefused) {
  run_ranks(2, [&](Job& job) {
    nn::Sequential model = small_model();
    DataParallel parallel(model, job, {.precision = "o2:dtype=fp16"});
    auto adam = adam_of(parallel);
    parallel.backward(loss_of(parallel, model, job.rank()));
    ASSERT_TRUE(parallel.synchronize());
    expect_misuse("unscaled already", [&] { parallel.synchronize(); });
    const std::string before = digest_of(parallel, model);
    ASSERT_TRUE(parallel.step(adam));  // with the gradients as they are
    EXPECT_NE(digest_of(parallel, model), before);
  });
}

// max_grad_norm does within step() what a program does after synchronize().
TEST(LossScaling, ClipsAsAProgramWouldByHand) {
  for (const std::string precision : {"none", "o1", "o2", "o2:dtype=fp16,scale=8192"}) {
    std::vector<std::string> digests;
    for (const bool is_by_hand : {false, true}) {
      run_ranks(2, [&](Job& job) {
        nn::Sequential model = small_model();
        DataParallel parallel(model, job,
                              {.precision = precision, .max_grad_norm = is_by_hand ? 0.0 : 0.1});
        auto adam = adam_of(parallel);
        for (int step = 0; step < 3; ++step) {
          adam.zero_grad();
          parallel.backward(loss_of(parallel, model, 10 * step + job.rank()));
          if (!is_by_hand) {
            parallel.step(adam);
            continue;
          }
          parallel.synchronize();
          EXPECT_GT(parallel.clip_grad_norm(0.1), 0.1);
          if (precision == "none" || precision == "o1") adam.step();
          else parallel.step(adam);
        }
        if (job.rank() == 0) digests.push_back(digest_of(parallel, model));
      });
    }
    EXPECT_EQ(digests[0], digests[1]) << precision;
  }
}

}  // namespace

}  // namespace paceline

namespace paceline::precision {
namespace {

// The sequence is that of the simulation of dynamic scales, whose values are known.
TEST(LossScale, GrowsAfterExactlyIntervalGoodStepsAndHalvesOnAnOverflow) {
  LossScale scale(65536, 2000);
  std::vector<double> scales;
  for (int i = 0; i < 7005; ++i) {
    scale.update(i == 5000);
    scales.push_back(scale.scale());
  }
  EXPECT_EQ(scales[1998], 65536);
  EXPECT_EQ(scales[1999], 131072);
  EXPECT_EQ(scales[3999], 262144);
  EXPECT_EQ(scales[5000], 131072);
  EXPECT_EQ(scales[6999], 131072);
  EXPECT_EQ(scales[7000], 262144);
}

TEST(LossScale, GoesOnFromWhatWasSaved) {
  LossScale whole(1024, 5), first(1024, 5);
  for (int i = 0; i < 7; ++i) {
    whole.update(i == 3);
    first.update(i == 3);
  }
  LossScale second(4, 5);
  second.restore(first.state());
  for (int i = 0; i < 9; ++i) {
    whole.update(i == 6);
    second.update(i == 6);
    EXPECT_EQ(whole.scale(), second.scale());
    EXPECT_EQ(whole.good_steps(), second.good_steps());
  }
}

TEST(LossScale, DoesNotFallBelowItsFloorAndRisesFromThere) {
  LossScale scale(16, 3, 4);
  for (int i = 0; i < 2000; ++i) scale.update(true);
  EXPECT_EQ(scale.scale(), 4);
  for (int i = 0; i < 3; ++i) scale.update(false);
  EXPECT_EQ(scale.scale(), 8);
  scale.restore({{"scale", 0x1p-44}, {"good_steps", 0}});
  EXPECT_EQ(scale.scale(), 4) << "as a run without a floor has saved it";
}

TEST(LossScale, StaysAFloatWhateverTheNumberOfGoodSteps) {
  LossScale scale(65536, 1);
  for (int i = 0; i < 2000; ++i) scale.update(false);
  EXPECT_LE(scale.scale(), 1e38);
}

}  // namespace

}  // namespace paceline::precision
