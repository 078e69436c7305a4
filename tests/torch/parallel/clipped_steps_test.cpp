// Clipping by every way that a program has, under every setting of a training in lockstep.
#include "tests/torch/parallel/split_training.h"

namespace paceline {
namespace {

TEST(ClippedSteps, MaxGradNormCountsForSynchronizeAndAStepOfOnesOwn) {
  Net one;
  auto optimizer_of_one = sgd(one);
  for (int step = 0; step < 3; ++step) {
    optimizer_of_one.zero_grad();
    loss_of(one, samples(step, 8)).backward();
    nn::utils::clip_grad_norm_(one.parameters(), 0.05);
    optimizer_of_one.step();
  }
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.max_grad_norm = 0.05});
    auto optimizer = sgd(net);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(net, samples(step, 8).rows(4 * job.rank(), 4 * job.rank() + 4)).backward();
      parallel.synchronize();
      optimizer.step();
    }
    expect_equal(net.parameters(), one.parameters(), 1e-12);
  });
  run_ranks(2, [&](Job& job) {
    Net net;
    auto wrapped = sgd(net);
    DistributedOptimizer optimizer(wrapped, job, {.max_grad_norm = 0.05});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(net, samples(step, 8).rows(4 * job.rank(), 4 * job.rank() + 4)).backward();
      optimizer.step();
    }
    expect_equal(net.parameters(), one.parameters(), 1e-12);
  });
}

TEST(ClippedSteps, DistributedOptimizerRefusesOptimizersThatItWouldNotStep) {
  run_ranks(1, [](Job& job) {
    Net net;
    auto wrapped = sgd(net);
    DataParallelOptions options;
    options.optimizer = [](const at::Tensor& parameter) {
      return std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{parameter}, 0.1);
    };
    EXPECT_THAT(misuse_of([&] { DistributedOptimizer(wrapped, job, options); }),
                AllOf(HasSubstr("DataParallelOptions::optimizer"), HasSubstr("step()")));
  });
}

// --- clipping between synchronize() and the step -------------------------------------------------

struct ClippedCell {
  std::string name;
  DataParallelOptions options = {};
  std::string layout = "dp=2";
  int ranks = 2;
};

std::vector<ClippedCell> clipped_cells() {
  std::vector<ClippedCell> cells = {{"stage 0"}};
  for (const int stage : {1, 2, 3})
    cells.push_back({c10::str("stage ", stage), {.zero_stage = stage}});
  for (const char* precision : {"o1", "o2", "o1:dtype=fp16,scale=64", "o2:dtype=fp16,scale=64"})
    cells.push_back({precision, {.precision = precision}});
  cells.push_back({"fp16, stage 3", {.precision = "o1:dtype=fp16,scale=64", .zero_stage = 3}});
  for (const auto& [layout, ranks] : {std::pair("tp=2", 2), std::pair("dp=2,tp=2", 4)})
    for (const int stage : {0, 1, 3})
      cells.push_back({c10::str(layout, ", stage ", stage), {.zero_stage = stage}, layout, ranks});
  return cells;
}

using Parameters = std::vector<at::Tensor>;
using Clip = std::function<double(DataParallel&, const Parameters& of_model)>;

struct ClippedTraining {
  std::vector<double> norms;    // of the steps of rank 0
  std::vector<at::Tensor> end;  // whole parameters of rank 0, or its parts of split ones
  std::string error;            // of rank 0
};

constexpr double kClippedTo = 0.05;

ClippedTraining trained(const ClippedCell& cell, const Clip& clip) {
  ClippedTraining result;
  run_ranks(cell.ranks, [&](Job& job) {
    DeviceMesh mesh(job, cell.layout);
    nn::Sequential net = layers_on(mesh);
    DataParallelOptions options = cell.options;
    options.check_replicas_every = 1;
    DataParallel parallel(*net, mesh, options);
    torch::optim::Adam optimizer(parallel.parameters(), torch::optim::AdamOptions(0.01));
    const bool ends_by_step = cell.options.precision.find("o2") == 0 ||
                              cell.options.precision.find("fp16") != std::string::npos;
    std::string error;
    for (int step = 0; step < 4 && error.empty(); ++step) {
      optimizer.zero_grad();
      parallel.backward(loss_of(parallel, net, samples(10 * step + mesh.rank("dp"), 4)) * 10);
      try {
        parallel.synchronize();
        const double norm = clip(parallel, net->parameters());
        if (job.rank() == 0) result.norms.push_back(norm);
        if (ends_by_step) parallel.step(optimizer);
        else optimizer.step();
      } catch (const Error& thrown) {
        error = thrown.what();
      }
    }
    if (job.rank() == 0) result.error = error;
    if (!error.empty()) return;  // in the middle of a step
    const auto whole = parallel.gathered();
    if (job.rank() > 0) return;
    for (const at::Tensor& each : net->parameters())
      result.end.push_back(each.detach().to(at::kDouble).clone());
  });
  return result;
}

double by_paceline(DataParallel& parallel, const Parameters&) {
  return parallel.clip_grad_norm(kClippedTo);
}

TEST(ClippedSteps, EveryWayOverTheModelsParametersClipsByTheNormOfTheWholeGradient) {
  for (const ClippedCell& cell : clipped_cells()) {
    const ClippedTraining expected = trained(cell, by_paceline);
    ASSERT_EQ(expected.error, "") << cell.name;
    EXPECT_GT(expected.norms.at(0), 2 * kClippedTo) << cell.name;
    const std::pair<const char*, Clip> ways[] = {
        {"ours",
         [](DataParallel&, const Parameters& all) { return clip_grad_norm(all, kClippedTo); }},
        {"ours over leaves",
         [](DataParallel& parallel, const Parameters&) {
           return clip_grad_norm(parallel.parameters(), kClippedTo);
         }},
        {"libtorch's", [](DataParallel&, const Parameters& all) {
           return nn::utils::clip_grad_norm_(all, kClippedTo);
         }}};
    for (const auto& [way, clip] : ways) {
      const ClippedTraining got = trained(cell, clip);
      const bool is_libtorchs = std::string(way) == "libtorch's";
      const bool has_plain_parts = cell.layout == "tp=2" || cell.options.zero_stage == 0;
      if (is_libtorchs && cell.layout != "dp=2" && has_plain_parts) {
        EXPECT_THAT(got.error, AllOf(HasSubstr("layers that are split"),
                                     HasSubstr("parallel.clip_grad_norm(max_norm)")))
            << cell.name;
        continue;
      }
      EXPECT_EQ(got.error, "") << cell.name << ", " << way;
      ASSERT_EQ(got.norms.size(), expected.norms.size()) << cell.name << ", " << way;
      for (std::size_t step = 0; step < got.norms.size(); ++step)
        EXPECT_NEAR(got.norms[step] / expected.norms[step], 1, 1e-5) << cell.name << ", " << way;
      expect_equal(got.end, expected.end, cell.options.precision == "none" ? 1e-5 : 1e-2);
    }
  }
}

TEST(ClippedSteps, LibtorchsClippingOfPartsIsRefusedByTheNextStep) {
  for (const ClippedCell& cell : clipped_cells()) {
    if (cell.options.zero_stage == 0) continue;
    const ClippedTraining got = trained(cell, [](DataParallel& parallel, const Parameters&) {
      return nn::utils::clip_grad_norm_(parallel.parameters(), kClippedTo);
    });
    EXPECT_THAT(got.error, AllOf(HasSubstr("parallel.parameters()"),
                                 HasSubstr("parallel.clip_grad_norm(max_norm)")))
        << cell.name;
  }
}

TEST(ClippedSteps, NormsOfAPartOfTheModelAreThoseOfTheWholeGradients) {
  std::vector<double> norms;
  for (const int stage : {0, 1, 2, 3}) {
    run_ranks(2, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job, {.zero_stage = stage});
      loss_of(net, samples(job.rank(), 4)).backward();
      EXPECT_TRUE(parallel.synchronize());
      const double ours = clip_grad_norm(net.second->parameters(), 1e9),
                   theirs = net.second->weight.grad().norm().item<double>();
      if (job.rank() == 0) norms.insert(norms.end(), {ours, theirs});
      if (stage == 0) return;
      EXPECT_THAT(misuse_of([&] { net.second->weight.grad().sum(); }),
                  AllOf(HasSubstr("'second.weight'"), HasSubstr("parallel.parameters()")));
    });
  }
  for (std::size_t i = 2; i < norms.size(); ++i) EXPECT_NEAR(norms[i], norms[i - 2], 1e-12);
}

TEST(ClippedSteps, GradientsThatLieElsewhereLeaveNoTraceInTheNextStepOrAtTheEnd) {
  for (const int stage : {1, 2, 3}) {
    Net nets[2];
    run_ranks(2, [&](Job& job) {
      Net& net = nets[job.rank()];
      DataParallel parallel(net, job, {.zero_stage = stage});
      torch::optim::SGD optimizer(parallel.parameters(), 0.1);
      for (int step = 0; step < 4; ++step) {
        loss_of(net, samples(job.rank(), 4), step == 1).backward();  // nobody zeroes
        EXPECT_TRUE(parallel.synchronize());
        optimizer.step();
        if (step == 2) net.zero_grad(false);
        for (at::Tensor& leaf : optimizer.param_groups()[0].params()) leaf.mutable_grad().reset();
      }
    });
    for (Net& net : nets)
      for (const at::Tensor& each : net.parameters()) EXPECT_FALSE(each.grad().defined());
    EXPECT_EQ(sha256_of(nets[0].parameters()), sha256_of(nets[1].parameters()));
  }
}

}  // namespace
}  // namespace paceline
