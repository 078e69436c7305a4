// DataParallel::save() and load().
#include "tests/torch/parallel/saved_training.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// The archives of one rank, as a user keeps them.
struct Checkpoint {
  std::string model, optimizer, parallel;
};

OptimizerFactory slow_momentum() {
  return [](const at::Tensor& parameter) {
    return std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{parameter},
                                               torch::optim::SGDOptions(0.01).momentum(0.9));
  };
}

// Steps [begin, end) of a training in a world of its own, saved before step `saved_at`. Returns
// rank 0's parameters.
std::string train(int begin, int end, int saved_at, const DataParallelOptions& options,
                  std::vector<Checkpoint>& checkpoints, int ranks = 2) {
  SameEverywhere same;
  std::string digest;
  run_ranks(ranks, [&](Job& job) {
    Checkpoint& checkpoint = checkpoints.at(static_cast<std::size_t>(job.rank()));
    auto net = std::make_shared<Net>(at::kFloat);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    if (begin > 0) {
      load(net, checkpoint.model);
      load(optimizer, checkpoint.optimizer);
    }
    DataParallel parallel(net, job, options);
    if (begin > 0) load(parallel, checkpoint.parallel);
    for (int step = begin; step <= end; ++step) {
      if (step == saved_at) {
        const std::string own = saved(parallel);
        checkpoint = {saved(net), saved(optimizer), own};
      }
      if (step == end) break;
      optimizer.zero_grad();
      parallel.weight(1 + (job.rank() + step) % 2);
      loss_of(*net, samples(step * ranks + job.rank(), 4)).backward();
      if (options.optimizer) parallel.step();
      else parallel.step(optimizer);
    }
    parallel.finish();
    same.tell("parameters", net->parameters());
    if (job.rank() == 0) digest = sha256_of(net->parameters());
  });
  return digest;
}

void expect_same_bits_after_loading(const DataParallelOptions& options) {
  std::vector<Checkpoint> checkpoints(2);
  const std::string expected = train(0, 14, 7, options, checkpoints);
  EXPECT_EQ(train(7, 14, 14, options, checkpoints), expected)
      << options.schedule << ", " << options.compression << (options.optimizer ? ", own" : "");
}

TEST(DataParallelCheckpoint, a_run_that_was_loaded_ends_with_the_bits_of_one_that_was_not) {
  for (const compress::Method& method : compress::built_in_methods()) {
    auto options = kSmallBuckets;
    options.compression = std::string(method.name) + ":min_compress_bytes=0";
    if (method.name == "one_bit_adam") options.compression += ",freeze_step=4";
    if (method.name == "dgc") options.compression += ",warm_up_steps=9";
    expect_same_bits_after_loading(options);
  }
}

TEST(DataParallelCheckpoint, also_under_measured_schedules_and_with_optimizers_of_its_own) {
  for (const std::string schedule : {"wait_free", "merged", "priority", "general"}) {
    for (const bool own : {false, true}) {
      DataParallelOptions options{.schedule = schedule,
                                  .compression = "ef_sign:min_compress_bytes=0"};
      if (own) options.optimizer = slow_momentum();
      expect_same_bits_after_loading(options);
    }
  }
}

TEST(DataParallelCheckpoint, also_between_two_looks_of_a_compression_with_a_menu) {
  for (const std::string schedule : {"buckets", "wait_free"}) {
    expect_same_bits_after_loading(
        {.schedule = schedule,
         .compression = "top_k:ratio=0.1/0.03/0.3,choose_every=3,min_compress_bytes=0"});
  }
}

TEST(DataParallelCheckpoint, another_schedule_goes_on_with_what_was_held_back) {
  const std::string compression = "top_k:ratio=0.1,min_compress_bytes=0";
  std::vector<Checkpoint> checkpoints(2);
  train(0, 5, 5, {.schedule = "wait_free", .compression = compression}, checkpoints);
  const std::vector<Checkpoint> before = checkpoints;
  // One step, uncompressed, in which it sees the order of gradients.
  train(5, 6, 6, {.schedule = "barrier", .compression = compression}, checkpoints);
  double held_back = 0;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto expected = residuals_in(before[rank].parallel);
    EXPECT_EQ(residuals_in(checkpoints[rank].parallel), expected) << "rank " << rank;
    for (const auto& values : expected)
      for (const float value : values) held_back += std::abs(value);
  }
  EXPECT_GT(held_back, 0);
}

TEST(DataParallelCheckpoint, without_compression_it_goes_on_on_any_number_of_ranks) {
  std::vector<Checkpoint> checkpoints(2);
  train(0, 5, 5, {.schedule = "merged"}, checkpoints);
  checkpoints.push_back(checkpoints.front());
  train(5, 8, 8, {.schedule = "merged"}, checkpoints, 3);
}

TEST(DataParallelCheckpoint, of_another_rank_compression_or_moment_is_refused_with_a_remedy) {
  const DataParallelOptions options{.compression = "top_k:ratio=0.1,min_compress_bytes=0"};
  std::vector<Checkpoint> checkpoints(2), later(2);
  train(0, 4, 4, options, checkpoints);
  train(0, 5, 5, options, later);
  const auto told = [](const std::shared_ptr<Net>& net, Job& job, const DataParallelOptions& given,
                       const std::string& archive) {
    DataParallel parallel(net, job, given);
    try {
      load(parallel, archive);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  run_ranks(2, [&](Job& job) {
    const auto rank = static_cast<std::size_t>(job.rank());
    auto net = std::make_shared<Net>(at::kFloat);
    EXPECT_THAT(told(net, job, options, checkpoints[1 - rank].parallel),
                AllOf(HasSubstr("this is rank"), HasSubstr("load none")));
    EXPECT_THAT(told(net, job, {.compression = "int8"}, checkpoints[rank].parallel),
                AllOf(HasSubstr("'top_k:ratio=0.1"), HasSubstr("'int8")));
    EXPECT_THAT(told(net, job, {}, checkpoints[rank].parallel), HasSubstr("'none'"));
    EXPECT_THAT(told(net, job, options, checkpoints[rank].model),
                HasSubstr("DataParallel::save()"));
    auto own = options;
    own.optimizer = slow_momentum();
    EXPECT_THAT(told(net, job, own, checkpoints[rank].parallel),
                HasSubstr("without DataParallelOptions::optimizer"));
  });
  run_ranks(2, [&](Job& job) {
    auto net = std::make_shared<Net>(at::kFloat);
    const auto& archive = job.rank() == 0 ? checkpoints[0].parallel : later[1].parallel;
    EXPECT_THAT(told(net, job, options, archive), HasSubstr("saved before coded step"));
  });
  run_ranks(2, [&](Job& job) {
    auto net = std::make_shared<Net>(at::kFloat);
    DataParallel parallel(net, job, options);
    loss_of(*net, samples(0, 4)).backward();
    EXPECT_THAT(misuse_of([&] { saved(parallel); }), HasSubstr("end the step first"));
    parallel.synchronize();
  });
}

}  // namespace
}  // namespace paceline
