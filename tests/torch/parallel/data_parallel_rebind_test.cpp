// A DataParallel that goes on with another group of ranks.
#include <barrier>
#include <optional>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

void train(Net& net, DataParallel& parallel, torch::optim::Optimizer& optimizer,
           Communicator& group, int from, int to) {
  for (int step = from; step < to; ++step) {
    optimizer.zero_grad();
    const std::int64_t rows = 12 / group.size();
    loss_of(net, samples(step, 12).rows(group.rank() * rows, (group.rank() + 1) * rows)).backward();
    parallel.step(optimizer);
  }
}

// Rank 2 leaves within a step; the two others give the step up and do it again with a world of
// their own.
TEST(Rebind, AfterARankWasLostTrainingGoesOnAsOneProcessWould) {
  Net one;
  auto optimizer_of_one = sgd(one);
  for (int step = 0; step < 6; ++step) {
    optimizer_of_one.zero_grad();
    loss_of(one, samples(step, 12)).backward();
    optimizer_of_one.step();
  }
  std::vector<Job> second = make_local_world(2);
  SameEverywhere same;
  std::barrier all_have_done_three(3);  // else who hears of the loss late loses its third step, too
  run_ranks(3, [&](Job& job) {
    std::optional<Job> next;  // outlives the DataParallel
    if (job.rank() < 2) next.emplace(std::move(second[static_cast<std::size_t>(job.rank())]));
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    auto optimizer = sgd(net);
    train(net, parallel, optimizer, job.world(), 0, 3);
    all_have_done_three.arrive_and_wait();
    if (job.rank() == 2) return;
    EXPECT_THROW(train(net, parallel, optimizer, job.world(), 3, 6), Error);
    parallel.rebind(next->world());
    train(net, parallel, optimizer, next->world(), 3, 6);
    expect_equal(net.parameters(), one.parameters(), 1e-12);
    same.tell("parameters", net.parameters());
  });
}

TEST(Rebind, TakesTheRootsParametersAndTheirPresentType) {
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    parallel.weight(5);
    loss_of(net, samples(job.rank(), 4)).backward();
    net.to(at::kFloat);
    {
      const at::NoGradGuard no_grad;
      net.first->bias.fill_(job.rank());
    }
    parallel.rebind(job.world(), 1);
    EXPECT_TRUE(net.first->bias.eq(1).all().item<bool>());
    for (const auto& grad : grads_of(net))
      EXPECT_FALSE(grad.defined()) << "of the step that was given up";
    loss_of(net, samples(0, 4)).backward();
    EXPECT_TRUE(parallel.synchronize());
    EXPECT_EQ(parallel.buckets()[0].dtype, Dtype::f32);
    EXPECT_EQ(parallel.last_step().total_weight, 2) << "the weight is 1 again";
    EXPECT_THAT(misuse_of([&] { parallel.rebind(job.world(), 2); }), HasSubstr("group of 2"));
    EXPECT_FALSE(parallel.buckets().empty());
  });
}

}  // namespace
}  // namespace paceline
