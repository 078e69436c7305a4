// Several backward passes for one step.
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(DataParallel, NoSyncAccumulatesToTheGradientOfTheLargeBatch) {
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
    // A gradient that came only while paused is sent too.
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

// Micro-batches of all sizes: each loss counts for its share of the rank's samples, the rank for
// its samples.
TEST(DataParallel, UnequalMicroBatchesOnUnequalRanksEqualTheLargeBatch) {
  Net one;
  const Samples all = samples(0, 12);
  loss_of(one, all).backward();
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    const std::vector<std::int64_t> edges = job.rank() == 0
                                                ? std::vector<std::int64_t>{0, 1, 5}
                                                : std::vector<std::int64_t>{5, 6, 9, 10, 12};
    const auto own = static_cast<double>(edges.back() - edges.front());
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      parallel.weight(own);
      const auto pass = [&](std::size_t k) {
        const auto rows = static_cast<double>(edges[k + 1] - edges[k]);
        (loss_of(net, all.rows(edges[k], edges[k + 1])) * (rows / own)).backward();
      };
      {
        const auto paused = parallel.no_sync();
        for (std::size_t k = 0; k + 2 < edges.size(); ++k) pass(k);
      }
      pass(edges.size() - 2);
      parallel.synchronize();
      expect_equal(grads_of(net), grads_of(one), 1e-12);
      same.tell("gradients", grads_of(net));
    }
  });
}

TEST(DataParallel, BackwardPassesPerStepIsNoSyncCountedByItself) {
  Net one;
  const Samples all = samples(0, 12);
  loss_of(one, all).backward();
  run_ranks(2, [&](Job& job) {
    Net net;
    auto options = kSmallBuckets;
    options.backward_passes_per_step = 3;
    options.check_replicas_every = 0;
    DataParallel parallel(net, job, options);
    const Samples own = all.rows(6 * job.rank(), 6 * job.rank() + 6);
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      const auto before = job.world().traffic_of_all_groups().operations;
      for (int k = 0; k < 3; ++k) (loss_of(net, own.rows(2 * k, 2 * k + 2)) / 3).backward();
      parallel.synchronize();
      expect_equal(grads_of(net), grads_of(one), 1e-12);
      EXPECT_EQ(parallel.last_step().gradients, 6) << "of the last pass alone";
      if (step > 0) {
        EXPECT_EQ(job.world().traffic_of_all_groups().operations - before,
                  parallel.buckets().size() + 2)
            << "two tell weights and used parameters";
      }
    }
    // A window that ends early sends what there is.
    net.zero_grad();
    loss_of(net, own).backward();
    parallel.synchronize();
    expect_equal(grads_of(net), grads_of(one), 1e-12);
    EXPECT_EQ(parallel.last_step().used, 6);
    // One pass too many belongs to the next step, before this one was ended.
    net.zero_grad();
    for (int k = 0; k < 3; ++k) loss_of(net, own).backward();
    EXPECT_THAT(misuse_of([&] { loss_of(net, own).backward(); }),
                AllOf(HasSubstr("second backward()"), HasSubstr("the 3 passes of this step"),
                      HasSubstr("closes the window with what there is")));
    parallel.synchronize();
  });
  run_ranks(1, [](Job& job) {
    Net net;
    EXPECT_THAT(misuse_of([&] { DataParallel(net, job, {.backward_passes_per_step = 0}); }),
                HasSubstr("at least 1"));
  });
}

// The micro-batches of a rank, as edges of rows.
const std::vector<std::vector<std::int64_t>> kMicroBatches = {
    {0, 1, 5}, {5, 6, 9, 10, 12}, {12, 12, 19, 20}};

// Says the weight of each micro-batch, and divides its loss by the number of passes.
template <typename Loss>
void accumulate(DataParallel& parallel, const std::vector<std::int64_t>& edges, bool by_guard,
                const Loss& loss) {
  double passes = 0;
  for (std::size_t k = 0; k + 1 < edges.size(); ++k) passes += edges[k + 1] > edges[k];
  for (std::size_t k = 0; k + 1 < edges.size(); ++k) {
    std::optional<DataParallel::NoSync> paused;
    if (by_guard && k + 2 < edges.size()) paused.emplace(parallel.no_sync());
    const auto rows = static_cast<double>(edges[k + 1] - edges[k]);
    parallel.weight(rows);
    if (rows > 0) (loss(edges[k], edges[k + 1]) / passes).backward();
  }
}

TEST(DataParallel, WeightsOfMicroBatchesAddUpAndEachCountsByItsOwn) {
  for (const int ranks : {1, 2, 3}) {
    const Samples all = samples(0, kMicroBatches[static_cast<std::size_t>(ranks - 1)].back());
    Net one;
    loss_of(one, all).backward();
    SameEverywhere same;
    run_ranks(ranks, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job, kSmallBuckets);
      for (int step = 0; step < 3; ++step) {
        net.zero_grad();
        accumulate(parallel, kMicroBatches[static_cast<std::size_t>(job.rank())], true,
                   [&](auto begin, auto end) { return loss_of(net, all.rows(begin, end)); });
        parallel.synchronize();
        expect_equal(grads_of(net), grads_of(one), 1e-12);
        EXPECT_EQ(parallel.last_step().total_weight, static_cast<double>(all.x.size(0)));
        same.tell("gradients", grads_of(net));
      }
    });
  }
}

TEST(DataParallel, WeightsOfCountedPassesAddUpUnderEverySettingThatAccumulates) {
  const Samples all = samples(0, 12);
  Net one;
  auto of_one = sgd(one);
  loss_of(one, all).backward();
  of_one.step();
  const std::vector<std::vector<std::int64_t>> edges = {{0, 1, 5, 6}, {6, 9, 10, 12}};
  for (const int stage : {0, 1, 2}) {
    run_ranks(2, [&](Job& job) {
      Net net;
      auto options = kSmallBuckets;
      options.backward_passes_per_step = 3;
      options.zero_stage = stage;
      DataParallel parallel(net, job, options);
      torch::optim::SGD optimizer(parallel.parameters(),
                                  torch::optim::SGDOptions(0.1).momentum(0.9));
      accumulate(parallel, edges[static_cast<std::size_t>(job.rank())], false,
                 [&](auto begin, auto end) { return loss_of(net, all.rows(begin, end)); });
      parallel.step(optimizer);
      parallel.finish();
      expect_equal(net.parameters(), one.parameters(), 1e-12);
    });
  }
  run_ranks(2, [&](Job& job) {  // sums of servers and of others add gradients up by themselves
    Net net, own;
    DataParallel parallel(net, job, {.synchrony = "none"});
    accumulate(parallel, edges[0], false,
               [&](auto begin, auto end) { return loss_of(net, all.rows(begin, end)); });
    loss_of(own, all.rows(0, 6)).backward();
    expect_equal(grads_of(net), grads_of(own), 1e-12);
  });
}

TEST(DataParallel, RowsOfSparseGradientsCountByTheWeightsOfTheirMicroBatches) {
  const at::Tensor words = torch::tensor({1, 2, 1, 3, 1, 4});
  const auto make = [] {
    torch::manual_seed(3);
    nn::Embedding table(nn::EmbeddingOptions(6, 4).sparse(true));
    table->to(at::kDouble);
    return table;
  };
  const auto loss = [&](nn::Embedding& table, std::int64_t begin, std::int64_t end) {
    return table->forward(words.slice(0, begin, end)).square().sum(1).mean();
  };
  nn::Embedding one = make();
  loss(one, 0, 6).backward();
  run_ranks(1, [&](Job& job) {
    nn::Embedding table = make();
    DataParallel parallel(table, job);
    accumulate(parallel, {0, 1, 6}, true,
               [&](auto begin, auto end) { return loss(table, begin, end); });
    parallel.synchronize();
    EXPECT_LE(difference(table->weight.grad().to_dense(), one->weight.grad().to_dense()), 1e-12);
  });
}

TEST(DataParallel, EqualWeightsOfMicroBatchesLeaveTheBitsAsTheyAre) {
  std::map<bool, std::string> digests;
  for (const bool says : {false, true}) {
    run_ranks(2, [&](Job& job) {
      Net net;
      auto options = kSmallBuckets;
      options.backward_passes_per_step = 3;
      DataParallel parallel(net, job, options);
      for (int pass = 0; pass < 3; ++pass) {
        if (says) parallel.weight(4);
        (loss_of(net, samples(3 * job.rank() + pass, 4)) / 3).backward();
      }
      parallel.synchronize();
      std::vector<at::Tensor> gradients = grads_of(net);
      std::erase_if(gradients, [](const at::Tensor& each) { return !each.defined(); });
      if (job.rank() == 0) digests[says] = sha256_of(gradients);
    });
  }
  EXPECT_EQ(digests[true], digests[false]);
}

TEST(DataParallel, AWeightSaidAfterTheLastPassIsThatOfTheWholeWindow) {
  const Samples all = samples(0, 12);
  Net one;
  loss_of(one, all).backward();
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.backward_passes_per_step = 5});
    const std::int64_t begin = job.rank() == 0 ? 0 : 2, end = job.rank() == 0 ? 2 : 12;
    const double own = static_cast<double>(end - begin);
    for (std::int64_t row = begin; row < end && row < begin + 3; ++row) {
      const std::int64_t until = row == begin + 2 ? end : row + 1;
      (loss_of(net, all.rows(row, until)) * (static_cast<double>(until - row) / own)).backward();
    }
    parallel.weight(own);
    parallel.synchronize();
    expect_equal(grads_of(net), grads_of(one), 1e-12);
  });
}

TEST(DataParallel, WeightsInAWindowWhoseMeaningIsNotSureAreRefused) {
  run_ranks(1, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.backward_passes_per_step = 4});
    const auto pass = [&] { loss_of(net, samples(0, 4)).backward(); };
    pass();
    parallel.weight(3);
    EXPECT_THAT(misuse_of(pass), AllOf(HasSubstr("the first ran before a weight was said"),
                                       HasSubstr("before each micro-batch, or once before")));
    parallel.synchronize();
    net.zero_grad();
    parallel.weight(3);
    pass();
    pass();
    parallel.weight(3);
    pass();  // nothing has changed
    parallel.weight(4);
    EXPECT_THAT(misuse_of(pass), HasSubstr("several ran under one weight"));
    parallel.synchronize();
    parallel.weight(3);
    pass();
    parallel.weight(4);
    EXPECT_THAT(misuse_of(pass), HasSubstr("optimizer.zero_grad() before the window"));
  });
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.backward_passes_per_step = 2, .zero_stage = 3});
    parallel.weight(3);
    loss_of(net, samples(0, 4)).backward();
    EXPECT_THAT(misuse_of([&] { parallel.weight(4); }),
                AllOf(HasSubstr("zero_stage 3"), HasSubstr("of the whole window")));
    loss_of(net, samples(0, 4)).backward();
    parallel.synchronize();
  });
}

}  // namespace
}  // namespace paceline
