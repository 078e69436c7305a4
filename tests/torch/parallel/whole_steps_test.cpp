// Passes that belong to one step, and steps that end in unusual ways.

#include "paceline/torch/parallel/mirrored.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// A layer whose activations are computed a second time in its backward, by a backward within it.
class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            nn::Linear layer) {
    context->save_for_backward({x});
    context->saved_data["layer"] = reinterpret_cast<std::int64_t>(layer.get());
    return at::tanh(layer(x));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    auto* layer = reinterpret_cast<nn::LinearImpl*>(context->saved_data["layer"].toInt());
    const at::AutoGradMode with_graph(true);
    at::tanh(layer->forward(x)).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

// `all`: every parameter's gradient is made in a nested backward.
at::Tensor recomputed_loss(Net& net, const Samples& s, bool all) {
  at::Tensor x = s.x;
  if (all) x = Recomputed::apply(at::Tensor(x.clone()).requires_grad_(true), net.first);
  else x = at::tanh(net.first(x));
  x = Recomputed::apply(x, net.second);
  x = all ? Recomputed::apply(x, net.last) : at::tanh(net.last(x));
  return at::mse_loss(x, s.y);
}
at::Tensor plain_loss(Net& net, const Samples& s) {
  return at::mse_loss(at::tanh(net.last(at::tanh(net.second(at::tanh(net.first(s.x)))))), s.y);
}

TEST(WholeSteps, ABackwardWithinABackwardBelongsToItsStep) {
  for (const bool all : {false, true}) {
    for (const int passes : {1, 2}) {
      Net one;
      for (int pass = 0; pass < passes; ++pass) plain_loss(one, samples(pass, 8)).backward();
      run_ranks(2, [&](Job& job) {
        Net net;
        auto options = kSmallBuckets;
        options.backward_passes_per_step = passes;
        DataParallel parallel(net, job, options);
        const std::int64_t from = 4 * job.rank();
        for (int step = 0; step < 3; ++step) {
          net.zero_grad();
          for (int pass = 0; pass < passes; ++pass)
            recomputed_loss(net, samples(pass, 8).rows(from, from + 4), all).backward();
          EXPECT_EQ(parallel.last_step().step, step);
          EXPECT_TRUE(parallel.synchronize());
          EXPECT_EQ(parallel.last_step().used, 6);
          expect_equal(grads_of(net), grads_of(one), 1e-12);
        }
      });
      run_ranks(1, [&](Job& job) {  // alone, because it ends in the middle of a step
        Net net;
        auto options = kSmallBuckets;
        options.backward_passes_per_step = passes;
        DataParallel parallel(net, job, options);
        for (int pass = 0; pass < passes; ++pass)
          recomputed_loss(net, samples(pass, 8), all).backward();
        EXPECT_THAT(misuse_of([&] { recomputed_loss(net, samples(3, 4), all).backward(); }),
                    HasSubstr("second backward()"));
      });
    }
  }
}

// A group whose models differ: rebind() fails, and there is no group until the next one.
void fail_to_rebind(Net& net, DataParallel& parallel, Job& job) {
  const at::NoGradGuard no_grad;
  if (job.rank() == 1) net.first->bias.set_data(at::zeros({9}, at::kDouble));
  EXPECT_THROW(parallel.rebind(job.world()), Error);
}

TEST(WholeSteps, GuardsEndQuietlyAfterAFailedRebind) {
  run_ranks(2, [](Job& job) {
    {
      Net net;
      DataParallel parallel(net, job);
      const auto pause = parallel.no_sync();
      fail_to_rebind(net, parallel, job);
    }
    Net net;
    DataParallel parallel(net, job);
    int turns = 0;
    for (auto turn : parallel.join(std::vector<int>(3))) {
      EXPECT_TRUE(turn);
      ++turns;
      fail_to_rebind(net, parallel, job);
      break;
    }
    EXPECT_EQ(turns, 1);
  });
}

struct TableAndLayer : nn::Module {
  TableAndLayer() {
    table = register_module("table", nn::Embedding(nn::EmbeddingOptions(5, 3).sparse(true)));
    layer = register_module("layer", nn::Linear(3, 2));
    const at::NoGradGuard no_grad;
    for (auto& p : parameters()) p.copy_(at::linspace(-1, 1, p.numel()).view(p.sizes()));
  }
  nn::Embedding table{nullptr};
  nn::Linear layer{nullptr};
};

TEST(WholeSteps, AStepThatOverflowsLeavesSparseGradientsOutToo) {
  for (const bool own : {false, true}) {
    run_ranks(2, [&](Job& job) {
      TableAndLayer net;
      DataParallelOptions options;
      options.compression = "fp16:min_compress_bytes=0";
      const auto make = [](const at::Tensor& parameter) {
        return std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{parameter}, 0.1);
      };
      if (own) options.optimizer = make;
      DataParallel parallel(net, job, options);
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      for (int step = 0; step < 4; ++step) {
        const bool overflows = step == 2;
        const std::string before = sha256_of(net.parameters());
        optimizer.zero_grad();
        const at::Tensor x = net.layer(net.table(torch::tensor({job.rank(), 3}))).sum();
        (x * (overflows && job.rank() == 1 ? 1e9 : 1)).backward();
        if (own) parallel.step();
        else parallel.step(optimizer);
        EXPECT_EQ(parallel.last_step().overflowed, overflows);
        EXPECT_EQ(sha256_of(net.parameters()) == before, overflows);
        if (overflows) {
          EXPECT_FALSE(net.layer->weight.grad().defined());
          EXPECT_FALSE(net.table->weight.grad().defined());
        }
      }
    });
  }
}

// Written through tensors that are no parameters, while updates are under way.
TEST(WholeSteps, OtherTensorsOverAParameterWaitForItsUpdate) {
  const auto trained = [](bool finishes) {
    std::string digest;
    run_ranks(2, {.share_memory = false}, [&](Job& job) {
      Net net;
      auto options = kSmallBuckets;
      options.schedule = "priority";
      options.optimizer = [](const at::Tensor& parameter) {
        return std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{parameter}, 0.1);
      };
      DataParallel parallel(net, job, options);
      const at::Tensor kept = net.first->weight.detach();
      for (int step = 0; step < 9; ++step) {
        loss_of(net, samples(2 * step + job.rank(), 4)).backward();
        EXPECT_TRUE(parallel.step());
        if (finishes) parallel.finish();
        const at::NoGradGuard no_grad;
        kept.mul_(0.5);
        for (auto& p : net.parameters()) p.data().clamp_(-0.2, 0.2);
      }
      parallel.finish();
      if (job.rank() == 0) digest = sha256_of(net.parameters());
    });
    return digest;
  };
  EXPECT_EQ(trained(false), trained(true));
}

TEST(WholeSteps, BatchNormOverAllRanksRefusesGradientsOfGradients) {
  const at::Tensor x = samples(0, 5).x.requires_grad_(true);
  SyncBatchNorm norm(nn::BatchNormOptions(6));
  norm->to(at::kDouble);
  const at::Tensor loss = norm(x).pow(3).sum();
  EXPECT_THAT(
      misuse_of([&] { torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true); }),
      AllOf(HasSubstr("SyncBatchNorm"), HasSubstr("create_graph")));
  EXPECT_TRUE(torch::autograd::grad({loss}, {x})[0].defined());
}

struct Normalised : nn::Module {
  Normalised() {
    layer = register_module("layer", nn::Linear(6, 3));
    norm = register_module("norm", SyncBatchNorm(nn::BatchNormOptions(3)));
    const at::NoGradGuard no_grad;
    for (auto& p : layer->parameters()) p.copy_(at::linspace(-1, 1, p.numel()).view(p.sizes()));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return norm(layer(x)); }
  nn::Linear layer{nullptr};
  SyncBatchNorm norm{nullptr};
};

TEST(WholeSteps, MirroredBatchNormTakesFewerRowsThanReplicas) {
  const auto make_optimizer = [](std::vector<at::Tensor> parameters) {
    return std::make_unique<torch::optim::SGD>(std::move(parameters), 0.1);
  };
  const auto loss = [](Normalised& net, const std::vector<at::Tensor>& part) {
    return at::mse_loss(net.forward(part[0]), part[1]);
  };
  Normalised one;
  torch::optim::SGD optimizer(one.parameters(), 0.1);
  Mirrored<Normalised> mirrored({torch::kCPU, torch::kCPU, torch::kCPU},
                                [] { return std::make_shared<Normalised>(); }, make_optimizer,
                                {.world = {.operation_timeout = std::chrono::seconds(10)}});
  for (int step = 0; step < 3; ++step) {
    const Samples batch = samples(step, step == 0 ? 5 : 2);
    optimizer.zero_grad();
    const at::Tensor expected = loss(one, {batch.x, batch.y});
    expected.backward();
    optimizer.step();
    EXPECT_NEAR(mirrored.step({batch.x, batch.y}, loss), expected.item<double>(), 1e-12);
  }
  for (std::size_t i = 0; i < 3; ++i)
    expect_equal(mirrored.replica(i).parameters(), one.parameters(), 1e-12);
}

// A user who compares the gradients of two steps keeps them so: `auto g = p.grad()`, a view or a
// detach().
TEST(WholeSteps, AGradientThatUserCodeKeepsIsNotOverwrittenByTheNextStep) {
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> ways = {
      [](const at::Tensor& grad) { return grad; },
      [](const at::Tensor& grad) { return grad.detach(); },
      [](const at::Tensor& grad) { return grad.view({-1}); }};
  for (const auto& keep : ways) {
    for (const bool compute_in_place : {true, false}) {
      run_ranks(2, [&](Job& job) {
        Net net, one;
        auto options = kSmallBuckets;
        options.compute_in_place = compute_in_place;
        DataParallel parallel(net, job, options);
        std::vector<std::pair<at::Tensor, at::Tensor>> kept;  // and their values
        for (int step = 0; step < 4; ++step) {
          net.zero_grad();
          one.zero_grad();
          loss_of(one, samples(step, 8), true).backward();
          loss_of(net, samples(step, 8).rows(4 * job.rank(), 4 * job.rank() + 4), true).backward();
          parallel.synchronize();
          expect_equal(grads_of(net), grads_of(one), 1e-12);
          for (const auto& p : net.parameters())
            kept.emplace_back(keep(p.grad()), p.grad().clone());
          for (const auto& [now, then] : kept)
            EXPECT_TRUE(at::equal(now, then.view(now.sizes()))) << "after step " << step;
        }
      });
    }
  }
}

}  // namespace
}  // namespace paceline
