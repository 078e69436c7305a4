// Attention over sequences that ranks share, in a ring and by heads, against attention in one
// process.
#include "paceline/torch/tensor/ring_attention.h"

#include <vector>

#include "paceline/torch/tensor/ulysses_attention.h"
#include "tests/torch/tensor/small_layers.h"

namespace paceline::tensor_test {
namespace {

constexpr std::int64_t kSamples = 2, kQueryHeads = 4, kLength = 24, kHeadSize = 5;

struct Attention {
  at::Tensor q, k, v, weights;  // of the loss: the sum of weights * output
  at::Tensor output;

  explicit Attention(std::int64_t kv_heads, bool is_causal) {
    q = numbers(1, {kSamples, kQueryHeads, kLength, kHeadSize}).requires_grad_();
    k = numbers(2, {kSamples, kv_heads, kLength, kHeadSize}).requires_grad_();
    v = numbers(3, {kSamples, kv_heads, kLength, kHeadSize}).requires_grad_();
    weights = numbers(4, q.sizes());
    const std::int64_t sharing = kQueryHeads / kv_heads;
    output = at::scaled_dot_product_attention(q, k.repeat_interleave(sharing, 1),
                                              v.repeat_interleave(sharing, 1), {}, 0, is_causal);
    (output * weights).sum().backward();
  }
};

using Attend = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, Communicator& group)>;
using Part = std::function<at::Tensor(const at::Tensor& whole, Communicator& group)>;

at::Tensor in_zigzag(const at::Tensor& whole, Communicator& group) {
  return zigzag_part(whole.detach(), 2, group);
}
at::Tensor in_rank_order(const at::Tensor& whole, Communicator& group) {
  return whole.detach().chunk(group.size(), 2)[static_cast<std::size_t>(group.rank())];
}

void expect_as_one_process(const Attention& one, int ranks, const Part& part,
                           const Attend& attend) {
  test::run_ranks(ranks, [&](Job& job) {
    Communicator& group = job.world();
    std::vector<at::Tensor> own;
    for (const at::Tensor* whole : {&one.q, &one.k, &one.v})
      own.push_back(part(*whole, group).clone().requires_grad_());
    const at::Tensor output = attend(own[0], own[1], own[2], group);
    EXPECT_LE(distance(output, part(one.output, group)), 1e-10);
    (output * part(one.weights, group)).sum().backward();
    EXPECT_LE(distance(own[0].grad(), part(one.q.grad(), group)), 1e-10) << "queries";
    EXPECT_LE(distance(own[1].grad(), part(one.k.grad(), group)), 1e-10) << "keys";
    EXPECT_LE(distance(own[2].grad(), part(one.v.grad(), group)), 1e-10) << "values";
  });
}

TEST(Zigzag, GivesEachRankAChunkFromEitherEnd) {
  test::run_ranks(2, [](Job& job) {
    const at::Tensor expected =
        job.rank() == 0 ? at::tensor({0, 1, 6, 7}, at::kLong) : at::tensor({2, 3, 4, 5}, at::kLong);
    EXPECT_TRUE(zigzag_positions(8, job.world()).equal(expected));
    EXPECT_TRUE(
        zigzag_part(at::arange(8, at::kLong).view({1, 8}), 1, job.world())[0].equal(expected));
    EXPECT_THAT(misuse_of([&] { zigzag_positions(6, job.world()); }),
                testing::HasSubstr("takes 4 equal chunks"));
  });
}

TEST(RingAttentionOverRanks, EqualsAttentionInOneProcessWithAllGradients) {
  for (const bool is_causal : {true, false}) {
    for (const std::int64_t kv_heads : {4, 2, 1}) {
      const Attention one(kv_heads, is_causal);
      for (const int ranks : {1, 2, 3, 4}) {
        expect_as_one_process(one, ranks, in_zigzag,
                              [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  Communicator& group) {
                                return ring_attention(q, k, v, group, {.is_causal = is_causal});
                              });
      }
    }
  }
}

TEST(RingAttentionOverRanks, SendsKeysRoundOnceForwardAndWithTheirGradientsBackward) {
  for (const int ranks : {2, 3, 4}) {
    test::run_ranks(ranks, [&](Job& job) {
      Communicator& group = job.world();
      const Attention one(/*kv_heads=*/2, /*is_causal=*/true);
      const at::Tensor q = in_zigzag(one.q, group).requires_grad_(),
                       k = in_zigzag(one.k, group).requires_grad_(),
                       v = in_zigzag(one.v, group).requires_grad_();
      const auto unit = static_cast<std::uint64_t>(k.numel()) * sizeof(double);
      const auto c = static_cast<std::uint64_t>(ranks);
      const std::uint64_t before = group.traffic().bytes_sent;
      const at::Tensor output = ring_attention(q, k, v, group);
      const std::uint64_t between = group.traffic().bytes_sent;
      EXPECT_EQ(between - before, 2 * (c - 1) * unit);
      output.sum().backward();
      EXPECT_EQ(group.traffic().bytes_sent - between, (2 * (c - 1) + 2 * c) * unit);
    });
  }
}

TEST(RingAttentionOverRanks, RefusesShapesThatDoNotFit) {
  test::run_ranks(2, [](Job& job) {
    const auto attend = [&](at::IntArrayRef q, at::IntArrayRef k) {
      return misuse_of([&] { ring_attention(at::ones(q), at::ones(k), at::ones(k), job.world()); });
    };
    EXPECT_THAT(attend({1, 4, 8, 2}, {1, 3, 8, 2}), testing::HasSubstr("kv_heads divides heads"));
    EXPECT_THAT(attend({1, 4, 7, 2}, {1, 4, 7, 2}), testing::HasSubstr("no two equal chunks"));
  });
}

// libtorch refuses to multiply two types, when keys are on their way.
TEST(RingAttentionOverRanks, KeysThatComeAfterAnExceptionAreWrittenNowhereElse) {
  expect_to_write_nowhere_else({2, 1, 2, 16, 64}, [](Communicator& group) {
    const at::Tensor queries = numbers(1, {1, 2, 16, 64}).to(at::kFloat),
                     keys = numbers(2, {1, 2, 16, 64});
    EXPECT_THROW(ring_attention(queries, keys, keys, group), c10::Error);
  });
}

TEST(UlyssesAttention, EqualsAttentionInOneProcessWithAllGradients) {
  for (const bool is_causal : {true, false}) {
    const Attention one(/*kv_heads=*/4, is_causal);
    for (const int ranks : {1, 2, 4}) {
      expect_as_one_process(
          one, ranks, in_rank_order,
          [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Communicator& group) {
            return ulysses_attention(q, k, v, group, is_causal);
          });
    }
  }
  const Attention shared(/*kv_heads=*/2, /*is_causal=*/true);
  expect_as_one_process(shared, 2, in_rank_order,
                        [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           Communicator& group) { return ulysses_attention(q, k, v, group); });
}

TEST(UlyssesAttention, RefusesHeadsThatTheRanksCannotShare) {
  test::run_ranks(4, [](Job& job) {
    const at::Tensor q = at::ones({1, 4, 2, 2}), k = at::ones({1, 2, 2, 2});
    EXPECT_THAT(misuse_of([&] { ulysses_attention(q, k, k, job.world()); }),
                testing::HasSubstr("4 ranks cannot share 4 heads, and 2 of keys"));
  });
}

}  // namespace
}  // namespace paceline::tensor_test
