// One rank's tensors and optimizer state for all.
#include "paceline/torch/replica/broadcast.h"

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(Broadcast, GivesAllRanksTheRootsParametersAndBuffers) {
  SameEverywhere same;
  run_ranks(3, [&](Job& job) {
    nn::Sequential model(nn::Linear(3, 4), nn::BatchNorm1d(4));
    const at::NoGradGuard no_grad;
    for (auto& tensor : model->parameters()) tensor.fill_(job.rank());
    for (auto& tensor : model->buffers()) tensor.fill_(job.rank());
    broadcast_parameters(*model, job.world(), 2);
    for (const auto& tensor : model->parameters()) EXPECT_TRUE(tensor.eq(2).all().item<bool>());
    for (const auto& tensor : model->buffers()) EXPECT_TRUE(tensor.eq(2).all().item<bool>());
    EXPECT_THAT(misuse_of([&] { broadcast_parameters(*model, job.world(), 3); }),
                HasSubstr("group of 3"));
    try {
      broadcast_parameters({at::ones({job.rank() == 1 ? 4 : 3})}, job.world());
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("f32[3]"), HasSubstr("f32[4]"), HasSubstr("rank 1")));
    }
  });
}

// Rank 1 trained alone for a while and the other ranks did not; then all go on together.
TEST(Broadcast, OfAnOptimizersStateLetsTrainingGoOnAsIfItHadBeenOne) {
  const auto train = [](Net& net, torch::optim::Optimizer& optimizer, int from, int to) {
    for (int step = from; step < to; ++step) {
      optimizer.zero_grad();
      loss_of(net, samples(step, 8)).backward();
      optimizer.step();
    }
  };
  for (const bool adam : {false, true}) {
    const auto optimizer_of = [=](Net& net) -> std::unique_ptr<torch::optim::Optimizer> {
      if (adam)
        return std::make_unique<torch::optim::Adam>(net.parameters(),
                                                    torch::optim::AdamOptions(0.01));
      return std::make_unique<torch::optim::SGD>(net.parameters(),
                                                 torch::optim::SGDOptions(0.1).momentum(0.9));
    };
    Net one;
    const auto optimizer_of_one = optimizer_of(one);
    train(one, *optimizer_of_one, 0, 6);
    run_ranks(3, [&](Job& job) {
      Net net;
      const auto optimizer = optimizer_of(net);
      if (job.rank() == 1) train(net, *optimizer, 0, 3);
      broadcast_parameters(net, job.world(), 1);
      broadcast_optimizer_state(*optimizer, job.world(), 1);
      train(net, *optimizer, 3, 6);
      EXPECT_EQ(sha256_of(net.parameters()), sha256_of(one.parameters()));
    });
  }
}

// Rank 1 has trained, and goes on with the root, which has not.
TEST(Broadcast, OfAnOptimizersStateLeavesNothingThatTheRootLacks) {
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    torch::optim::SGD optimizer = sgd(net);
    const auto step = [&](int number) {
      optimizer.zero_grad();
      loss_of(net, samples(number, 4), true).backward();
      optimizer.step();
    };
    if (job.rank() == 1) step(0);
    broadcast_parameters(net, job.world());
    broadcast_optimizer_state(optimizer, job.world());
    EXPECT_TRUE(optimizer.state().empty());
    step(1);
    same.tell("parameters", net.parameters());
  });
}

}  // namespace
}  // namespace paceline
