// Several replicas in one process: the bits of as many processes with a DataParallel each.
#include "paceline/torch/parallel/mirrored.h"

#include <set>
#include <thread>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

std::unique_ptr<torch::optim::Optimizer> make_sgd(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(0.1).momentum(0.9));
}

at::Tensor loss(Net& net, const std::vector<at::Tensor>& part) {
  return at::mse_loss(net.forward(part[0]), part[1]);
}

const MirroredOptions kSmall{.parallel = kSmallBuckets};

TEST(Mirrored, HasTheBitsOfProcessesAndTheNumbersOfOne) {
  for (const std::size_t devices : {1, 2, 3}) {
    Net one;
    auto optimizer_of_one = sgd(one);
    Mirrored<Net> mirrored(
        std::vector<torch::Device>(devices, torch::kCPU), [] { return std::make_shared<Net>(); },
        make_sgd, kSmall);
    ASSERT_EQ(mirrored.size(), devices);
    for (int step = 0; step < 4; ++step) {
      const Samples batch = samples(step, 7);
      optimizer_of_one.zero_grad();
      const at::Tensor expected = loss_of(one, batch);
      expected.backward();
      optimizer_of_one.step();
      EXPECT_NEAR(mirrored.step({batch.x, batch.y}, loss), expected.item<double>(), 1e-12);
    }
    expect_equal(mirrored.replica().parameters(), one.parameters(), 1e-12);
    const std::string digest = sha256_of(mirrored.replica().parameters());
    run_ranks(static_cast<int>(devices), [&](Job& job) {
      Net net;
      DataParallel parallel(net, job, kSmallBuckets);
      auto optimizer = sgd(net);
      for (int step = 0; step < 4; ++step) {
        const Samples batch = samples(step, 7);
        const auto split = static_cast<std::int64_t>(devices);
        const Samples own{batch.x.tensor_split(split)[job.rank()],
                          batch.y.tensor_split(split)[job.rank()]};
        optimizer.zero_grad();
        parallel.weight(static_cast<double>(own.x.size(0)));
        loss_of(net, own).backward();
        parallel.step(optimizer);
      }
      EXPECT_EQ(sha256_of(net.parameters()), digest);
    });
    for (std::size_t i = 0; i < devices; ++i)
      EXPECT_EQ(sha256_of(mirrored.replica(i).parameters()), digest);
  }
}

TEST(Mirrored, ReplicasComputeWithTheThreadsOfTheCaller) {
  const int before = at::get_num_threads();
  Mirrored<Net> mirrored(
      std::vector<torch::Device>(2, torch::kCPU), [] { return std::make_shared<Net>(); }, make_sgd,
      kSmall);
  const Samples batch = samples(0, 6);
  for (const int threads : {1, 2, 1}) {
    at::set_num_threads(threads);
    mirrored.step({batch.x, batch.y}, [&](Net& net, const std::vector<at::Tensor>& part) {
      EXPECT_EQ(at::get_num_threads(), threads);
      return loss(net, part);
    });
  }
  at::set_num_threads(before);
}

TEST(Mirrored, ComputesOnAThreadForEachReplicaAndLeavesReplicasWithoutRowsOut) {
  Mirrored<Net> mirrored(
      {torch::kCPU, torch::kCPU, torch::kCPU}, [] { return std::make_shared<Net>(); }, make_sgd);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::set<Net*> nets;
  const auto watched = [&](Net& net, const std::vector<at::Tensor>& part) {
    EXPECT_EQ(part[0].size(0), 1);
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    nets.insert(&net);
    return loss(net, part);
  };
  for (int step = 0; step < 3; ++step)
    mirrored.step({samples(step, 2).x, samples(step, 2).y}, watched);
  EXPECT_EQ(threads.size(), 2U);
  EXPECT_EQ(nets.size(), 2U);
  EXPECT_EQ(mirrored.parallel(2).last_step().shadows, 1);
  EXPECT_EQ(sha256_of(mirrored.replica(2).parameters()),
            sha256_of(mirrored.replica(0).parameters()));
}

TEST(Mirrored, EndsWithTheCauseWhenOneReplicaFails) {
  Mirrored<Net> mirrored(
      {torch::kCPU, torch::kCPU}, [] { return std::make_shared<Net>(); }, make_sgd);
  const Samples batch = samples(0, 4);
  EXPECT_THROW(mirrored.step({batch.x, batch.y},
                             [&](Net& net, const std::vector<at::Tensor>& part) {
                               if (&net == &mirrored.replica(1))
                                 throw std::domain_error("no loss today");
                               return loss(net, part);
                             }),
               std::domain_error);
  EXPECT_THAT(misuse_of([&] {
                mirrored.step({batch.x, batch.y}, loss);
              }),
              HasSubstr("failed before"));
}

TEST(Mirrored, RefusesWhatItCannotMirror) {
  const auto make = [](std::vector<torch::Device> devices) {
    Mirrored<Net>(
        devices, [] { return std::make_shared<Net>(); }, make_sgd);
  };
  EXPECT_THAT(misuse_of([&] { make({}); }), HasSubstr("no device"));
  EXPECT_THAT(misuse_of([&] { make({torch::kCPU, torch::kCUDA}); }), HasSubstr("cuda"));
  Mirrored<Net> mirrored(
      {torch::kCPU}, [] { return std::make_shared<Net>(); }, make_sgd);
  EXPECT_THAT(misuse_of([&] {
                mirrored.step({samples(0, 4).x, samples(0, 3).y}, loss);
              }),
              HasSubstr("same number of rows"));
  EXPECT_THAT(misuse_of([&] { mirrored.replica(1); }), HasSubstr("no replica 1"));
}

}  // namespace
}  // namespace paceline
