// Split layers beside the rest of data parallel training, and the bytes that they send.
#include <functional>
#include <string>
#include <vector>

#include "paceline/torch/optimizers/optimizers.h"
#include "tests/torch/tensor/small_gpt.h"

namespace paceline::tensor_test {
namespace {

// How a step is made, beside the plain loop.
struct Way {
  DataParallelOptions options = {};
  bool is_uneven = false;    // the first replica has three rows of four
  bool accumulates = false;  // two backward passes make a step
  bool is_sequence_parallel = false;
  bool owns_optimizers = false;
};

// The losses of a few steps, as the ranks together have them.
std::vector<double> losses_of(Job& job, const std::string& layout, Way way) {
  DeviceMesh mesh(job, layout);
  tiny_gpt::Model model = model_of_seed();
  parallelize(*model, mesh, plan_of(kGpt, way.is_sequence_parallel));
  if (way.accumulates) way.options.backward_passes_per_step = 2;
  if (way.owns_optimizers) {
    way.options.optimizer = [](const at::Tensor& parameter) {
      return std::make_unique<torch::optim::Adam>(std::vector{parameter},
                                                  torch::optim::AdamOptions(3e-3));
    };
  }
  DataParallel parallel(*model, mesh, way.options);
  auto optimizer = adam(model);
  std::vector<double> losses;
  for (int step = 0; step < 8; ++step) {
    if (!way.owns_optimizers) optimizer.zero_grad();
    const at::Tensor words = words_of(step);
    const bool is_cut = way.is_uneven && mesh.size("dp") == 2;
    const at::Tensor rows = is_cut
                                ? (mesh.rank("dp") == 0 ? words.slice(0, 0, 3) : words.slice(0, 3))
                                : words.slice(0, mesh.rank("dp"), std::nullopt, mesh.size("dp"));
    parallel.weight(static_cast<double>(rows.size(0)));
    const at::Tensor loss = loss_of(model, rows);
    if (way.accumulates) (loss / 2).backward(), (loss_of(model, rows) / 2).backward();
    else loss.backward();
    losses.push_back(parallel.mean(loss.detach()).item<double>());
    if (way.owns_optimizers) parallel.step();
    else parallel.step(optimizer);
  }
  parallel.finish();
  return losses;
}

void expect_losses_of_one_process(const Way& way) {
  std::vector<double> expected;
  test::run_ranks(1, [&](Job& job) { expected = losses_of(job, "dp=1", way); });
  test::run_ranks(4, [&](Job& job) {
    const auto losses = losses_of(job, "dp=2,tp=2", way);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-9) << "step " << i;
  });
}

TEST(TensorParallel, GoesWithBatchesOfDifferentSizes) {
  expect_losses_of_one_process({.is_uneven = true});
}
TEST(TensorParallel, GoesWithAccumulation) {
  expect_losses_of_one_process({.accumulates = true});
  expect_losses_of_one_process({.accumulates = true, .is_sequence_parallel = true});
}
TEST(TensorParallel, GoesWithSchedulesAndAcrossTheBarrier) {
  for (const char* schedule : {"wait_free", "merged", "priority"}) {
    expect_losses_of_one_process({.options = {.schedule = schedule}});
    expect_losses_of_one_process({.options = {.schedule = schedule}, .owns_optimizers = true});
  }
}

TEST(TensorParallel, RefusesOptimizersThatLookAtWholeTensors) {
  test::run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "tp=2");
    tiny_gpt::Model model = model_of_seed();
    parallelize(*model, mesh, plan_of(kGpt, false));
    DataParallel parallel(*model, mesh);
    optimizers::LAMB lamb(model->parameters());
    loss_of(model, words_of(0)).backward();
    try {
      parallel.step(lamb);
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("LAMB steps by norms"), std::string::npos);
    }
  });
}

// --- traffic
// --------------------------------------------------------------------------------------

std::uint64_t bytes_of(Communicator& group, const std::function<void()>& call) {
  const std::uint64_t before = group.traffic().bytes_sent;
  call();
  return group.traffic().bytes_sent - before;
}

// Measures what a rank sends for one operation on f64 tensors.
struct PriceList {
  explicit PriceList(Communicator& group) : group_(group) {}
  std::uint64_t all_reduce(std::int64_t elements) {
    const at::Tensor tensor = at::ones({elements}, at::kDouble);
    return bytes_of(group_, [&] { group_.all_reduce(buffer_of(tensor)).wait(); });
  }
  std::uint64_t all_gather(std::int64_t elements) {  // of all ranks together
    const at::Tensor all = at::ones({elements}, at::kDouble);
    const at::Tensor own = at::ones({elements / group_.size()}, at::kDouble);
    return bytes_of(group_, [&] { group_.all_gather(buffer_of(own), buffer_of(all)).wait(); });
  }
  std::uint64_t reduce_scatter(std::int64_t elements) {
    const at::Tensor all = at::ones({elements}, at::kDouble);
    const at::Tensor own = at::ones({elements / group_.size()}, at::kDouble);
    return bytes_of(group_, [&] { group_.reduce_scatter(buffer_of(all), buffer_of(own)).wait(); });
  }

 private:
  Communicator& group_;
};

// Trains one step; `expected` tells the bytes for the operations that it takes.
void expect_traffic(int ranks, bool is_sequence_parallel,
                    const std::function<std::uint64_t(PriceList&)>& expected) {
  test::run_ranks(ranks, [&](Job& job) {
    DeviceMesh mesh(job, "tp=" + std::to_string(ranks));
    tiny_gpt::Model model = model_of_seed();
    parallelize(*model, mesh, plan_of(kGpt, is_sequence_parallel));
    DataParallel parallel(*model, mesh);
    Communicator& group = mesh.group("tp");
    const std::uint64_t sent = bytes_of(group, [&] {
      loss_of(model, words_of(0)).backward();
      parallel.synchronize();
    });
    PriceList prices(group);
    EXPECT_EQ(sent, expected(prices)) << "rank " << job.rank() << " of " << ranks;
  });
}

constexpr std::int64_t kTokens = kBatch * kGpt.length, kActivation = kTokens * kGpt.features;

TEST(TensorParallelTraffic, IsFourSumsOfActivationsALayerTwoMoreAndThreeNumbersAToken) {
  expect_traffic(2, false, [](PriceList& prices) {
    return (4 * kGpt.layers + 2) * prices.all_reduce(kActivation) + prices.all_reduce(kTokens) +
           prices.all_reduce(2 * kTokens);
  });
}

TEST(TensorParallelTraffic, AlongTheSequenceIsTheSameAsGathersAndScatteredSums) {
  expect_traffic(2, true, [](PriceList& prices) {
    const std::uint64_t small = 5 * prices.all_reduce(2 * kGpt.features) +       // norms
                                4 * prices.all_reduce(kGpt.features) +           // biases of rows
                                prices.all_reduce(kGpt.length * kGpt.features);  // positions
    return (4 * kGpt.layers + 2) *
               (prices.all_gather(kActivation) + prices.reduce_scatter(kActivation)) +
           prices.all_reduce(kTokens) + prices.all_reduce(2 * kTokens) + small;
  });
}

// Nothing but the ranks' own arithmetic keeps equal what every one of them holds whole.
TEST(TensorParallel, ReplicatedParametersKeepEqualBitsFor100Steps) {
  test::run_ranks(4, [&](Job& job) {
    DeviceMesh mesh(job, "tp=4");
    tiny_gpt::Model model = model_of_seed();
    model->to(at::kFloat);
    parallelize(*model, mesh, plan_of(kGpt, /*is_sequence_parallel=*/true));
    DataParallel parallel(*model, mesh, {.check_replicas_every = 10});
    auto optimizer = adam(model);
    for (int step = 0; step < 100; ++step) {
      optimizer.zero_grad();
      loss_of(model, words_of(step)).backward();
      parallel.step(optimizer);
    }
  });
}

}  // namespace
}  // namespace paceline::tensor_test
