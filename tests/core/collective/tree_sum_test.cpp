#include "paceline/core/collective/tree_sum.h"

#include <gtest/gtest.h>

#include <cstring>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/collective/balanced_tree.h"
#include "paceline/core/collective/combine.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective {
namespace {

constexpr std::size_t kCount = 37;

// Finite values, so that bits are comparable: small whole numbers of the type.
std::vector<std::byte> numbers_of(Dtype dtype, int rank) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = static_cast<float>(testing::value<int>(rank, i)) / 7;
  if (dtype == Dtype::f32) {
    const Bytes bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> result(kCount * size_of(dtype));
  if (is_half(dtype)) {
    const ConstBuffer source = const_buffer_of(values);
    // x max x rounds each value once.
    accumulate(ReduceOp::max, source, source, {result.data(), kCount, dtype}, 1);
  } else {
    SeededNumbers random(static_cast<std::uint64_t>(rank));
    for (std::byte& b : result) b = static_cast<std::byte>(random.below(256));
    if (dtype == Dtype::f64) {
      std::vector<double> doubles(values.begin(), values.end());
      std::memcpy(result.data(), doubles.data(), result.size());
    }
  }
  return result;
}

// The definition: each partial sum in memory of its own, in f32 where the type has 16 bits.
std::vector<std::byte> plain_sum(ReduceOp op, const std::vector<ConstBuffer>& inputs,
                                 double factor) {
  const Dtype dtype = inputs.front().dtype;
  std::vector<std::vector<std::byte>> sums;
  sums.reserve(inputs.size());
  const ConstBuffer sum = balanced_sum(inputs, [&](ConstBuffer left, ConstBuffer right) {
    const bool is_last = sums.size() + 2 == inputs.size();
    const Dtype type = is_half(dtype) && !is_last ? Dtype::f32 : dtype;
    const Buffer target{sums.emplace_back(kCount * sizeof(double)).data(), kCount, type};
    combine(op, left, right, target, is_last ? factor : 1);
    return ConstBuffer(target);
  });
  const Bytes bytes = sum.bytes();
  return {bytes.begin(), bytes.end()};
}

TEST(TreeSum, IsTheBalancedTreeRoundedOnceWhereverItsTargetLies) {
  for (const Dtype dtype :
       {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::u8, Dtype::boolean}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                              ReduceOp::product, ReduceOp::bor}) {
      if (!can_reduce(op, dtype)) continue;
      for (int count = 2; count <= 9; ++count) {
        const double factor = op == ReduceOp::average ? 1.0 / count : 1;
        TreeSum tree_sum(count, kCount * size_of(dtype));
        for (int in_place = -1; in_place < count; ++in_place) {
          std::vector<std::vector<std::byte>> values;
          for (int i = 0; i < count; ++i) values.push_back(numbers_of(dtype, i));
          std::vector<ConstBuffer> inputs;
          for (const auto& v : values) inputs.push_back({v.data(), kCount, dtype});
          const auto wanted = plain_sum(op, inputs, factor);
          std::vector<std::byte> apart(wanted.size());
          auto& target = in_place < 0 ? apart : values[static_cast<std::size_t>(in_place)];
          tree_sum(op, inputs, {target.data(), kCount, dtype}, factor);
          ASSERT_EQ(target, wanted)
              << name_of(op) << " of " << count << " " << name_of(dtype) << ", into " << in_place;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::collective
