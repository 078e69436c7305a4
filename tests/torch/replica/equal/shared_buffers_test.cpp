// Buffers follow the root in each step, and long ones travel only when they have changed.
#include "paceline/torch/replica/equal/shared_buffers.h"

#include <random>

#include "paceline/torch/replica/equal/coalesced.h"
#include "tests/support/seed.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

using replica::SharedBuffers;

constexpr std::int64_t kLongElements =
    static_cast<std::int64_t>(SharedBuffers::kLongBytes / sizeof(double));

// A layer, two long buffers and a short one.
struct WithBuffers : nn::Module {
  WithBuffers() {
    layer = register_module("layer", nn::Linear(nn::LinearOptions(2, 2)));
    layer->to(at::kDouble);
    const auto f64 = at::TensorOptions().dtype(at::kDouble);
    mask = register_buffer("mask", at::ones({kLongElements}, f64));
    table = register_buffer("table", at::ones({2 * kLongElements}, f64));
    count = register_buffer("count", at::zeros({1}, f64));
  }
  void backward() { layer->forward(at::ones({1, 2}, at::kDouble)).sum().backward(); }
  nn::Linear layer{nullptr};
  at::Tensor mask, table, count;
};

double bytes_of_step(Job& job, WithBuffers& net, DataParallel& parallel) {
  const auto before = job.world().traffic_of_all_groups().bytes_sent;
  net.zero_grad();
  net.backward();
  parallel.synchronize();
  return static_cast<double>(job.world().traffic_of_all_groups().bytes_sent - before);
}

TEST(SharedBuffersOfReplicas, ConstantsStayAtHomeAndWhatChangedTravels) {
  run_ranks(2, {.share_memory = false}, [](Job& job) {
    WithBuffers net;
    DataParallel parallel(net, job, {.check_replicas_every = 0});
    const auto most_of_a_constant = static_cast<double>(SharedBuffers::kLongBytes) / 8;
    for (int step = 0; step < 3; ++step)
      EXPECT_LT(bytes_of_step(job, net, parallel), most_of_a_constant) << step;
    // Past the version, as libtorch's batch norm writes.
    static_cast<double*>(net.table.mutable_data_ptr())[77] = 5 + job.rank();
    const auto bytes = bytes_of_step(job, net, parallel);
    if (job.rank() == 0) {
      EXPECT_GE(bytes, static_cast<double>(net.table.nbytes()));
    }
    EXPECT_LT(bytes, static_cast<double>(net.table.nbytes() + net.mask.nbytes()));
    EXPECT_EQ(net.table[77].item<double>(), 5) << "rank 0's";
    EXPECT_LT(bytes_of_step(job, net, parallel), most_of_a_constant);
  });
}

// Writes drawn from a seed, on ranks drawn from it, in three ways: after each step all buffers are
// the root's, as if they had travelled.
TEST(SharedBuffersOfReplicas, AreTheRootsAfterEachStepWhateverWasWrittenWhere) {
  constexpr int kRanks = 3, kSteps = 40;
  SameEverywhere same;
  run_ranks(kRanks, [&](Job& job) {
    WithBuffers net;
    DataParallel parallel(net, job, {.check_replicas_every = 0});
    std::mt19937_64 draws(test::seed(40));
    for (int step = 0; step < kSteps; ++step) {
      const int root = static_cast<int>(draws() % 2);  // rank 0 may be a shadow
      for (at::Tensor* buffer : {&net.mask, &net.table, &net.count}) {
        const auto place =
            static_cast<std::int64_t>(draws() % static_cast<std::uint64_t>(buffer->numel()));
        const auto way = draws() % 5;
        const auto rank = static_cast<int>(draws() % kRanks);
        const bool writes = job.rank() == rank || (way == 1 && step % 3 > 0);
        if (!writes || way > 2) continue;
        const double value = step + 0.1 * job.rank();
        const at::NoGradGuard no_grad;
        if (way == 0) buffer->index({place}).fill_(value);
        if (way == 1) buffer->data().index({place}).fill_(value);
        if (way == 2) static_cast<double*>(buffer->mutable_data_ptr())[place] = value;
      }
      const auto digest = sha256_of(net.buffers());
      net.zero_grad();
      parallel.weight(job.rank() < root ? 0 : 2);
      if (job.rank() >= root) net.backward();
      parallel.synchronize();
      if (job.rank() == root) {
        EXPECT_EQ(sha256_of(net.buffers()), digest) << "step " << step;
      }
      same.tell(c10::str("buffers after step ", step), net.buffers());
    }
  });
}

// One element in memory, as torch::ones(1).expand(n) makes it.
TEST(SharedBuffersOfReplicas, MayBeExpanded) {
  run_ranks(2, [](Job& job) {
    nn::Linear net(2, 2);
    at::Tensor scale = net->register_buffer("scale", at::full({1}, 3 + job.rank()).expand({4}));
    DataParallel parallel(net, job);
    EXPECT_TRUE(scale.eq(3).all().item<bool>()) << "rank 0's";
    net->forward(at::ones({1, 2})).sum().backward();
    if (job.rank() == 0) static_cast<std::int64_t*>(scale.mutable_data_ptr())[0] = 7;
    parallel.synchronize();
    EXPECT_TRUE(scale.eq(7).all().item<bool>());
  });
}

}  // namespace
}  // namespace paceline
