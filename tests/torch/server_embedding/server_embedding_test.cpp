// Layers whose rows lie on servers, beside torch's own with all rows in memory.
#include "paceline/torch/server_embedding/server_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "paceline/core/server/serve.h"
#include "tests/support/local_world.h"

namespace paceline {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kEmbeddingIds = 30, kEmbeddingWidth = 4;
constexpr double kEmbeddingRate = 0.1;

void run_embedding(int workers, const std::function<void(Job&)>& work) {
  const LocalWorldOptions options = {.servers = 2};
  test::run_ranks(workers, options, [&](Job& job) {
    if (job.role() == Role::server) serve(job);
    else work(job);
  });
}

server::SparseTableSpec double_spec(const std::string& synchrony = "bsp") {
  return {.name = "rows",
          .width = kEmbeddingWidth,
          .dtype = Dtype::f64,
          .synchrony = synchrony,
          .rule = "adagrad:rate=0.1",
          .spread = 1};
}

at::Tensor all_rows(ServerEmbedding& embedding) {
  const at::NoGradGuard no_grad;
  return embedding(at::arange(kEmbeddingIds, at::kLong));
}

// Both sum the squares of the rows that they look up, times numbers that follow from the step.
template <typename Lookup>
at::Tensor squares(const Lookup& lookup, std::int64_t step) {
  const at::Tensor factors = at::arange(8 * kEmbeddingWidth, at::kDouble) * 0.01 + 0.1 * step;
  return (lookup().square() * factors.reshape({8, kEmbeddingWidth})).sum();
}

at::Tensor ids_of_step(std::int64_t step, std::int64_t count) {
  return (at::arange(count, at::kLong) * (step + 3)) % (kEmbeddingIds - 5);
}

TEST(ServerEmbedding, StepsAsTorchsEmbeddingUnderAdagrad) {
  run_embedding(1, [](Job& job) {
    server::SparseTable table(job, double_spec());
    ServerEmbedding embedding(table);
    torch::nn::Embedding own(
        torch::nn::EmbeddingOptions(kEmbeddingIds, kEmbeddingWidth)._weight(all_rows(embedding)));
    own->to(at::kDouble);
    torch::optim::Adagrad optimizer(own->parameters(),
                                    torch::optim::AdagradOptions(kEmbeddingRate));
    for (std::int64_t step = 0; step < 10; ++step) {
      const at::Tensor ids = ids_of_step(step, 8);
      optimizer.zero_grad();
      squares([&] { return own->forward(ids); }, step).backward();
      optimizer.step();
      squares([&] { return embedding(ids); }, step).backward();
      if (step % 2 == 0) embedding->prefetch(ids_of_step(step + 1, 8));
      embedding->step();
    }
    EXPECT_TRUE(at::allclose(all_rows(embedding), own->weight, 0, 1e-12));
  });
}

TEST(ServerEmbedding, SumsBagsAsTorchsEmbeddingBagAlsoEmptyOnes) {
  run_embedding(1, [](Job& job) {
    server::SparseTable table(job, double_spec("asp"));
    ServerEmbedding embedding(table);
    torch::nn::EmbeddingBag own(torch::nn::EmbeddingBagOptions(kEmbeddingIds, kEmbeddingWidth)
                                    .mode(torch::kSum)
                                    ._weight(all_rows(embedding)));
    torch::optim::Adagrad optimizer(own->parameters(),
                                    torch::optim::AdagradOptions(kEmbeddingRate));
    const at::Tensor offsets = at::tensor({0, 3, 3, 4, 9, 11, 15, 20}, at::kLong);
    for (std::int64_t step = 0; step < 10; ++step) {
      const at::Tensor ids = ids_of_step(step, 20);
      optimizer.zero_grad();
      squares([&] { return own->forward(ids, offsets); }, step).backward();
      optimizer.step();
      squares([&] { return embedding(ids, offsets); }, step).backward();
      embedding->step();
    }
    EXPECT_TRUE(at::allclose(all_rows(embedding), own->weight, 0, 1e-12));
  });
}

// The same batch in two halves on two ranks is one batch, by the weights of their samples.
TEST(ServerEmbedding, RanksThatShareABatchStepAsOne) {
  std::vector<at::Tensor> ends(3);
  for (const int workers : {1, 2}) {
    run_embedding(workers, [&](Job& job) {
      server::SparseTable table(job, double_spec());
      ServerEmbedding embedding(table);
      for (std::int64_t step = 0; step < 5; ++step) {
        const std::int64_t cut = workers == 1 ? 0 : job.rank() == 0 ? 0 : 3;
        const std::int64_t end = workers == 1 ? 8 : job.rank() == 0 ? 3 : 8;
        const at::Tensor ids = ids_of_step(step, 8).slice(0, cut, end);
        embedding(ids).square().sum(1).mean().backward();
        embedding->step({.weight = static_cast<double>(end - cut)});
      }
      table.quiesce().wait();
      const at::Tensor rows = all_rows(embedding);
      if (job.rank() == 0) ends[static_cast<std::size_t>(workers)] = rows;
    });
  }
  EXPECT_TRUE(at::allclose(ends[1], ends[2], 0, 1e-12));
}

TEST(ServerEmbedding, KeepsTheShapeOfItsIdsAndRecordsNothingInEvaluation) {
  run_embedding(1, [](Job& job) {
    server::SparseTable table(job, double_spec("asp"));
    ServerEmbedding embedding(table);
    EXPECT_EQ(embedding(at::zeros({2, 3}, at::kLong)).sizes(),
              (std::vector<std::int64_t>{2, 3, kEmbeddingWidth}));
    EXPECT_TRUE(embedding->parameters().empty());
    EXPECT_FALSE(all_rows(embedding).requires_grad());
    embedding->step();  // of a pass that nothing was differentiated through
    EXPECT_EQ(table.clock(), 1);
    table.quiesce().wait();
    EXPECT_EQ(table.figures().rows, 0u);
  });
}

TEST(ServerEmbedding, WhatAreNoIdsOrOffsetsIsRefused) {
  run_embedding(1, [](Job& job) {
    server::SparseTable table(job, double_spec("asp"));
    ServerEmbedding embedding(table);
    const auto refusal = [&](const at::Tensor& ids, const std::optional<at::Tensor>& offsets = {}) {
      try {
        offsets ? embedding(ids, *offsets) : embedding(ids);
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    EXPECT_THAT(refusal(at::zeros({2})), HasSubstr("its ids are i64"));
    EXPECT_THAT(refusal(at::full({1}, std::int64_t{1} << 48, at::kLong)), HasSubstr("48 bits"));
    const at::Tensor ids = at::zeros({4}, at::kLong);
    for (const auto& bad : {at::tensor({1, 2}, at::kLong), at::tensor({0, 3, 2}, at::kLong),
                            at::tensor({0, 5}, at::kLong)})
      EXPECT_THAT(refusal(ids, bad), HasSubstr("offsets of bags"));
  });
}

}  // namespace
}  // namespace paceline
