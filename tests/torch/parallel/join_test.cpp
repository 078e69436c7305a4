// Ranks without a batch take part as shadows.
#include <algorithm>
#include <optional>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(Join, AShadowContributesNothingAndEndsWithTheSameGradients) {
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
          loss_of(net, samples(9, 3), true).backward();  // even of a branch that no other rank uses
        EXPECT_TRUE(parallel.synchronize());
        expect_equal(grads_of(net), grads_of(one), 1e-12);
        same.tell("gradients", grads_of(net));
      }
    });
  }
}

TEST(Join, RanksOfDifferentLengthsEndTogetherAndNobodyStepsInTheClosingRound) {
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

// Batch k of rank r, of a size of its own.
Samples uneven_batch(int rank, int k) {
  return samples(10 * rank + k, 1 + (rank + 2 * k) % 4);
}

// The training of one process: in turn k it has the batches of all ranks that still have one.
void expect_joined_equals_one_process(const std::vector<int>& lengths, bool tell_weights) {
  const int longest = *std::max_element(lengths.begin(), lengths.end());
  const auto ranks = static_cast<int>(lengths.size());
  Net one;
  auto optimizer_of_one = sgd(one);
  for (int k = 0; k < longest; ++k) {
    optimizer_of_one.zero_grad();
    std::vector<at::Tensor> losses;
    std::vector<double> weights;
    for (int r = 0; r < ranks; ++r) {
      if (k >= lengths[static_cast<std::size_t>(r)]) continue;
      const Samples batch = uneven_batch(r, k);
      losses.push_back(loss_of(one, batch));
      weights.push_back(tell_weights ? static_cast<double>(batch.x.size(0)) : 1);
    }
    double total = 0;
    for (double weight : weights) total += weight;
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (std::size_t i = 0; i < losses.size(); ++i) loss = loss + losses[i] * (weights[i] / total);
    loss.backward();
    optimizer_of_one.step();
  }
  SameEverywhere same;
  run_ranks(ranks, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    auto optimizer = sgd(net);
    std::vector<Samples> loader;
    for (int k = 0; k < lengths[static_cast<std::size_t>(job.rank())]; ++k)
      loader.push_back(uneven_batch(job.rank(), k));
    int turns = 0, batches = 0;
    for (auto turn : parallel.join(loader)) {
      ++turns;
      optimizer.zero_grad();
      if (turn) {
        ++batches;
        if (tell_weights) parallel.weight(static_cast<double>(turn->x.size(0)));
        loss_of(net, *turn).backward();
      }
      parallel.step(optimizer);
    }
    EXPECT_EQ(turns, longest + 1);
    EXPECT_EQ(batches, static_cast<int>(loader.size()));
    expect_equal(net.parameters(), one.parameters(), 1e-12);
    same.tell("parameters", net.parameters());
  });
}

TEST(Join, EqualsOneProcessThatHasTheBatchesOfAllRanks) {
  for (const bool tell_weights : {false, true}) {
    for (const std::vector<int>& lengths : {std::vector<int>{3, 5, 5, 7}, {0, 2, 1}, {0, 0}, {3}}) {
      expect_joined_equals_one_process(lengths, tell_weights);
    }
  }
}

TEST(Join, LeavesTheWeightAsItWasBeforeTheLoop) {
  run_ranks(2, [](Job& job) {
    Net net, one;
    DataParallel parallel(net, job);
    auto optimizer = sgd(net);
    for (auto turn : parallel.join(std::vector<int>(static_cast<std::size_t>(job.rank())))) {
      if (turn) loss_of(net, samples(0, 4)).backward();
      parallel.step(optimizer);
    }
    optimizer.zero_grad();
    loss_of(net, samples(0, 4)).backward();
    EXPECT_TRUE(parallel.synchronize());
    EXPECT_EQ(parallel.last_step().total_weight, 2);
  });
}

TEST(Join, WalksLibtorchsDataLoader) {
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    auto optimizer = sgd(net);
    const Samples own = samples(job.rank(), job.rank() == 0 ? 5 : 9);
    auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        torch::data::datasets::TensorDataset(own.x).map(
            torch::data::transforms::Stack<torch::data::TensorExample>()),
        3);
    std::vector<at::Tensor> seen;
    int turns = 0;
    for (auto turn : parallel.join(*loader)) {
      optimizer.zero_grad();
      if (turn) {
        seen.push_back(turn->data);
        net.forward(turn->data).square().mean().backward();
      }
      parallel.step(optimizer);
      ++turns;
    }
    EXPECT_EQ(turns, 4);
    EXPECT_TRUE(at::equal(at::cat(seen), own.x)) << "each batch once, in order";
  });
}

TEST(Join, RefusesATurnThatLeavesTheOtherRanksWaiting) {
  run_ranks(1, [](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    EXPECT_THAT(misuse_of([&] {
                  for (auto turn : parallel.join(std::vector<int>{})) EXPECT_FALSE(turn);
                }),
                HasSubstr("call it in every turn"));
  });
}

TEST(Join, RefusesToThrowAwayAccumulatedGradients) {
  run_ranks(1, [](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.backward_passes_per_step = 2});
    EXPECT_THAT(misuse_of([&] {
                  for (auto turn : parallel.join(std::vector<int>(1))) {
                    if (turn) loss_of(net, samples(0, 4)).backward();  // the first half of a window
                  }
                }),
                HasSubstr("gradients that this rank accumulated"));
  });
}

TEST(Join, IsNamedToARankWhoseLoopIsLongerThanTheOthers) {
  for (const bool ends : {false, true}) {  // or goes on with something else
    run_ranks(2, [&](Job& job) {
      Net net;
      std::optional<DataParallel> parallel(std::in_place, net, job);
      auto optimizer = sgd(net);
      const auto step = [&](int number) {
        optimizer.zero_grad();
        loss_of(net, samples(number, 4)).backward();
        parallel->step(optimizer);
      };
      for (int number = 0; number < 2; ++number) step(number);
      if (job.rank() == 1) {
        parallel.reset();
        if (!ends) {
          EXPECT_THROW(job.world().barrier().wait(), Error);
        }
        return;
      }
      try {
        step(2);
        ADD_FAILURE() << "a step that only one rank made";
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), ends ? Fault::peer_lost : Fault::mismatch);
        EXPECT_THAT(error.what(), HasSubstr("join"));
        EXPECT_THAT(error.what(), HasSubstr("different numbers of batches"));
      }
    });
  }
}

}  // namespace
}  // namespace paceline
