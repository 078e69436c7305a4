// The state that a DataParallel keeps from step to step, saved and restored.
#include "tests/torch/parallel/saved_training.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// The state of all ranks of a world.
struct Kept {
  explicit Kept(int ranks)
      : model(static_cast<std::size_t>(ranks)), optimizer(model.size()), parallel(model.size()) {}
  std::vector<std::string> model, optimizer;
  std::vector<replica::SynchronyState> parallel;
};

// Steps [begin, end) of a training in a world of its own, saved before step `saved_at`. Returns
// rank 0's parameters.
std::string train(int begin, int end, int saved_at, const DataParallelOptions& options, Kept& kept,
                  int ranks = 2) {
  SameEverywhere same;
  std::string digest;
  const Kept before = std::exchange(kept, Kept(ranks));
  run_ranks(ranks, [&](Job& job) {
    const auto rank = static_cast<std::size_t>(job.rank());
    auto net = std::make_shared<Net>(at::kFloat);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    if (begin > 0) {
      load(net, before.model.at(rank % before.model.size()));
      load(optimizer, before.optimizer.at(rank % before.model.size()));
    }
    DataParallel parallel(net, job, options);
    if (begin > 0) parallel.replicas().synchrony().restore(saved_by(before.parallel));
    for (int step = begin; step <= end; ++step) {
      if (step == saved_at) {
        kept.parallel[rank] = state_of(parallel);
        kept.model[rank] = saved(net);
        kept.optimizer[rank] = saved(optimizer);
      }
      if (step == end) break;
      optimizer.zero_grad();
      parallel.weight(1 + (job.rank() + step) % 2);
      loss_of(*net, samples(step * ranks + job.rank(), 4)).backward();
      parallel.step(optimizer);
    }
    parallel.finish();
    same.tell("parameters", net->parameters());
    if (job.rank() == 0) digest = sha256_of(net->parameters());
  });
  return digest;
}

void expect_same_bits_after_loading(const DataParallelOptions& options) {
  Kept kept(2);
  const std::string expected = train(0, 14, 7, options, kept);
  EXPECT_EQ(train(7, 14, 14, options, kept), expected)
      << options.schedule << ", " << options.compression;
}

TEST(DataParallelCheckpoint, ARunThatWasLoadedEndsWithTheBitsOfOneThatWasNot) {
  for (const compress::Method& method : compress::built_in_methods()) {
    auto options = kSmallBuckets;
    options.compression = std::string(method.name) + ":min_compress_bytes=0";
    if (method.name == "one_bit_adam") options.compression += ",freeze_step=4";
    if (method.name == "dgc") options.compression += ",warm_up_steps=9";
    expect_same_bits_after_loading(options);
  }
}

TEST(DataParallelCheckpoint, AlsoUnderMeasuredSchedules) {
  for (const std::string schedule : {"wait_free", "merged", "priority", "general"}) {
    expect_same_bits_after_loading(
        {.schedule = schedule, .compression = "ef_sign:min_compress_bytes=0"});
  }
}

TEST(DataParallelCheckpoint, AlsoBetweenTwoLooksOfACompressionWithAMenu) {
  for (const std::string schedule : {"buckets", "wait_free"}) {
    expect_same_bits_after_loading(
        {.schedule = schedule,
         .compression = "top_k:ratio=0.1/0.03/0.3,choose_every=3,min_compress_bytes=0"});
  }
}

TEST(DataParallelCheckpoint, AnotherScheduleGoesOnWithWhatWasHeldBack) {
  const std::string compression = "top_k:ratio=0.1,min_compress_bytes=0";
  Kept kept(2);
  train(0, 5, 5, {.schedule = "wait_free", .compression = compression}, kept);
  const Kept before = kept;
  // One step, uncompressed, in which it sees the order of gradients.
  train(5, 6, 6, {.schedule = "barrier", .compression = compression}, kept);
  double held_back = 0;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto expected = residuals_in(before.parallel[rank].own);
    EXPECT_EQ(residuals_in(kept.parallel[rank].own), expected) << "rank " << rank;
    for (const auto& values : expected)
      for (const float value : values) held_back += std::abs(value);
  }
  EXPECT_GT(held_back, 0);
}

// The mean over the ranks of what top_k holds back, by tensor and element.
std::vector<std::vector<double>> mean_held_back(const Kept& kept) {
  std::vector<std::vector<double>> mean;
  for (const auto& state : kept.parallel) {
    const auto own = residuals_in(state.own);
    mean.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      mean[i].resize(own[i].size());
      for (std::size_t k = 0; k < own[i].size(); ++k)
        mean[i][k] += static_cast<double>(own[i][k]) / static_cast<double>(kept.parallel.size());
    }
  }
  return mean;
}

TEST(DataParallelCheckpoint, OnAnotherNumberOfRanksTheMeanOfWhatWasHeldBackStays) {
  const DataParallelOptions options{.compression = "top_k:ratio=0.1,min_compress_bytes=0"};
  Kept saved_by_four(4);
  train(0, 5, 5, options, saved_by_four, 4);
  const auto expected = mean_held_back(saved_by_four);
  ASSERT_FALSE(expected.empty());
  for (const int ranks : {1, 2, 3, 7}) {
    Kept kept = saved_by_four;
    train(5, 5, 5, options, kept, ranks);  // restored, and saved at once
    const auto got = mean_held_back(kept);
    ASSERT_EQ(got.size(), expected.size()) << ranks;
    for (std::size_t i = 0; i < got.size(); ++i)
      for (std::size_t k = 0; k < got[i].size(); ++k)
        ASSERT_NEAR(got[i][k], expected[i][k], 1e-6) << ranks << " ranks, tensor " << i;
  }
}

TEST(DataParallelCheckpoint, OfAnotherCompressionOrMomentIsRefusedWithARemedy) {
  const DataParallelOptions options{.compression = "top_k:ratio=0.1,min_compress_bytes=0"};
  Kept kept(2), later(2);
  train(0, 4, 4, options, kept);
  train(0, 5, 5, options, later);
  const auto told = [](Job& job, const DataParallelOptions& given, const Kept& saved) {
    auto net = std::make_shared<Net>(at::kFloat);
    DataParallel parallel(net, job, given);
    try {
      parallel.replicas().synchrony().restore(saved_by(saved.parallel));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  run_ranks(2, [&](Job& job) {
    EXPECT_THAT(told(job, {.compression = "int8"}, kept),
                AllOf(HasSubstr("'top_k:ratio=0.1"), HasSubstr("'int8")));
    EXPECT_THAT(told(job, {}, kept), HasSubstr("'none'"));
  });
  run_ranks(2, [&](Job& job) {
    EXPECT_THAT(told(job, options, job.rank() == 0 ? kept : later),
                HasSubstr("saved before coded step"));
  });
  run_ranks(2, [&](Job& job) {
    auto net = std::make_shared<Net>(at::kFloat);
    DataParallel parallel(net, job, options);
    loss_of(*net, samples(0, 4)).backward();
    EXPECT_THAT(misuse_of([&] { parallel.replicas().synchrony().state(); }),
                HasSubstr("end the step first"));
    parallel.synchronize();
  });
}

}  // namespace
}  // namespace paceline
