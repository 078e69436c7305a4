// Sparse gradients of embeddings: the numbers of dense ones, in one process.
#include "paceline/torch/gradient/sparse_gradients.h"

#include "tests/support/seed.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

struct Table : nn::Module {
  Table(bool sparse, at::ScalarType type) {
    words = register_module("words", nn::Embedding(nn::EmbeddingOptions(12, 3).sparse(sparse)));
    bags = register_module(
        "bags", nn::EmbeddingBag(nn::EmbeddingBagOptions(7, 3).mode(torch::kSum).sparse(sparse)));
    out = register_module("out", nn::Linear(3, 2));
    const at::NoGradGuard no_grad;
    for (auto& p : parameters()) p.copy_(at::linspace(-1, 1, p.numel()).view(p.sizes()));
    to(type);
  }
  at::Tensor forward(const at::Tensor& index, bool use_bags = true) {
    at::Tensor x = words(index);
    if (use_bags) x = x + bags(index.remainder(7).unsqueeze(1));
    return out(at::tanh(x));
  }
  nn::Embedding words{nullptr};
  nn::EmbeddingBag bags{nullptr};
  nn::Linear out{nullptr};
};

at::Tensor indices(int step, std::int64_t count) {
  return at::randint(12, {count},
                     at::detail::createCPUGenerator(test::seed(static_cast<std::uint64_t>(step))),
                     at::TensorOptions(at::kLong));
}

std::vector<at::Tensor> dense_grads_of(const nn::Module& net) {
  std::vector<at::Tensor> grads;
  for (const auto& p : net.parameters()) {
    const at::Tensor& grad = p.grad();
    grads.push_back(!grad.defined()                ? at::Tensor()
                    : grad.layout() == at::kSparse ? grad.to_dense()
                                                   : grad.clone());
  }
  return grads;
}

TEST(SparseGradients, EqualTheDenseOnesOfOneProcess) {
  constexpr std::int64_t kRows = 15;
  for (const int ranks : {2, 3, 4}) {
    Table one(false, at::kDouble);
    torch::optim::SGD optimizer_of_one(one.parameters(), torch::optim::SGDOptions(0.3));
    for (int step = 0; step < 4; ++step) {
      optimizer_of_one.zero_grad();
      one.forward(indices(step, kRows)).square().mean().backward();
      optimizer_of_one.step();
    }
    SameEverywhere same;
    run_ranks(ranks, [&](Job& job) {
      Table net(true, at::kDouble);
      DataParallel parallel(net, job);
      torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.3));
      const std::int64_t begin = job.rank() * (job.rank() + 1) / 2;
      const std::int64_t end = job.rank() + 1 == ranks ? kRows : begin + job.rank() + 1;
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad(/*set_to_none=*/step % 2 == 0);
        parallel.weight(static_cast<double>(end - begin));
        net.forward(indices(step, kRows).slice(0, begin, end)).square().mean().backward();
        ASSERT_TRUE(parallel.synchronize());
        EXPECT_EQ(parallel.last_step().used, 4);
        for (const at::Tensor& table : {net.words->weight, net.bags->weight}) {
          ASSERT_EQ(table.grad().layout(), at::kSparse);
          EXPECT_TRUE(table.grad().is_coalesced());
          same.tell(c10::str("rows of ", table.size(0), " in step ", step),
                    {table.grad().indices(), table.grad().values()});
        }
        optimizer.step();
      }
      expect_equal(net.parameters(), one.parameters(), 1e-12);
      same.tell("parameters", net.parameters());
    });
  }
}

TEST(SparseGradients, AccumulateShadowAndRestAsDenseOnesDo) {
  std::mutex mutex;
  std::map<std::string, std::vector<at::Tensor>> seen;
  for (const bool sparse : {false, true}) {
    run_ranks(3, [&](Job& job) {
      Table net(sparse, at::kDouble);
      DataParallel parallel(net, job);
      const auto compare = [&](const std::string& what) {
        const std::lock_guard lock(mutex);
        const auto [place, fresh] = seen.emplace(what, dense_grads_of(net));
        if (!fresh) expect_equal(dense_grads_of(net), place->second, 1e-12);
      };
      const auto pass = [&](int step, bool use_bags) {
        net.forward(indices(10 * step + job.rank(), 4), use_bags).square().mean().backward();
      };
      {
        const auto paused = parallel.no_sync();
        pass(0, true);
      }
      pass(1, false);
      parallel.synchronize();
      compare("accumulated under no_sync");
      pass(2, job.rank() == 1);  // no zero_grad
      parallel.synchronize();
      compare("added to what was there");
      net.zero_grad();
      pass(3, false);
      parallel.synchronize();
      EXPECT_FALSE(net.bags->weight.grad().defined()) << "no rank used it";
      compare("unused on all ranks");
      net.zero_grad();
      parallel.weight(job.rank());  // rank 0 is a shadow
      if (job.rank() != 0) pass(4, job.rank() == 2);
      parallel.synchronize();
      compare("with a shadow");
      net.zero_grad();
      parallel.weight(0);
      EXPECT_FALSE(parallel.synchronize());
      EXPECT_FALSE(net.words->weight.grad().defined());
    });
  }
}

TEST(SparseGradients, OfAModelOfNothingElseTrainToo) {
  run_ranks(2, [](Job& job) {
    nn::Module model;
    const at::Tensor table = model.register_parameter("table", at::ones({5, 2}, at::kDouble));
    DataParallel parallel(model, job, {.sparse = {"table"}});
    EXPECT_TRUE(parallel.buckets().empty());
    at::embedding(table, torch::tensor({job.rank(), 3}), -1, false, true).sum().backward();
    EXPECT_TRUE(parallel.synchronize());
    EXPECT_TRUE(at::equal(table.grad().indices()[0], torch::tensor({0, 1, 3})));
    EXPECT_TRUE(at::equal(table.grad().to_dense().select(1, 0),
                          torch::tensor({0.5, 0.5, 0.0, 1.0, 0.0}, at::kDouble)));
    EXPECT_EQ(parallel.last_step().total_weight, 2);
  });
  run_ranks(1, [](Job& job) {
    Net net;
    EXPECT_THAT(misuse_of([&] { DataParallel(net, job, {.sparse = {"nowhere"}}); }),
                HasSubstr("'nowhere'"));
  });
}

}  // namespace
}  // namespace paceline
