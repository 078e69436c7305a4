// Also covers paceline/core/collective/carrier/combine.cpp, which adds two of its inputs.
#include "paceline/core/collective/carrier/tree_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <type_traits>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::collective {
namespace {

constexpr std::size_t kCount = 37;

// A plain reference by the language's own arithmetic, one element at a time: it uses none of
// Paceline's code that sums, widens and narrows.

template <typename T>
T applied(ReduceOp op, T left, T right) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
  const auto a = static_cast<Wide>(left), b = static_cast<Wide>(right);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return static_cast<T>(a + b);
    case ReduceOp::product: return static_cast<T>(a * b);
    case ReduceOp::min: return right < left ? right : left;
    case ReduceOp::max: return left < right ? right : left;
    default: return static_cast<T>(static_cast<std::uint64_t>(a) | static_cast<std::uint64_t>(b));
  }
}

template <typename T>
T tree_of(ReduceOp op, std::span<const T> leaves) {
  if (leaves.size() == 1) return leaves.front();
  const std::size_t half = std::bit_floor(leaves.size() - 1);
  return applied(op, tree_of(op, leaves.first(half)), tree_of(op, leaves.subspan(half)));
}

// Positive normal numbers alone: the low bits go, to the nearest, ties to even.
std::uint16_t narrowed(Dtype dtype, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int cut = dtype == Dtype::f16 ? 13 : 16;
  const std::uint32_t rounded = (bits + (1U << (cut - 1)) - 1 + ((bits >> cut) & 1)) >> cut;
  return static_cast<std::uint16_t>(rounded - (dtype == Dtype::f16 ? (127U - 15) << 10 : 0));
}
float widened(Dtype dtype, std::uint16_t half) {
  const std::uint32_t bits = half;
  return std::bit_cast<float>(dtype == Dtype::f16 ? (bits + ((127U - 15) << 10)) << 13
                                                  : bits << 16);
}

template <typename T>
T element(const std::vector<std::byte>& values, std::size_t i) {
  T value;
  std::memcpy(&value, &values[i * sizeof(T)], sizeof(T));
  return value;
}
template <typename T>
void put(std::vector<std::byte>& values, std::size_t i, T value) {
  std::memcpy(&values[i * sizeof(T)], &value, sizeof(T));
}

template <typename T, typename Wide = T, typename Widen, typename Narrow>
std::vector<std::byte> expected_sum(ReduceOp op, const std::vector<std::vector<std::byte>>& inputs,
                                    double factor, const Widen& widen, const Narrow& narrow) {
  std::vector<std::byte> result(kCount * sizeof(T));
  for (std::size_t i = 0; i < kCount; ++i) {
    std::vector<Wide> leaves;
    for (const auto& input : inputs) leaves.push_back(widen(element<T>(input, i)));
    Wide sum = tree_of<Wide>(op, leaves);
    if constexpr (std::is_floating_point_v<Wide>) sum *= static_cast<Wide>(factor);
    put<T>(result, i, narrow(sum));
  }
  return result;
}

std::vector<std::byte> expected_sum(Dtype dtype, ReduceOp op,
                                    const std::vector<std::vector<std::byte>>& inputs,
                                    double factor) {
  const auto same = [](auto value) { return value; };
  switch (dtype) {
    case Dtype::f32: return expected_sum<float>(op, inputs, factor, same, same);
    case Dtype::f64: return expected_sum<double>(op, inputs, factor, same, same);
    case Dtype::i32: return expected_sum<std::int32_t>(op, inputs, factor, same, same);
    case Dtype::u8: return expected_sum<std::uint8_t>(op, inputs, factor, same, same);
    case Dtype::boolean: {
      const bool is_or = op != ReduceOp::min && op != ReduceOp::product;
      return expected_sum<std::uint8_t>(
          is_or ? ReduceOp::max : ReduceOp::min, inputs, factor,
          [](std::uint8_t byte) { return static_cast<std::uint8_t>(byte != 0); }, same);
    }
    default:
      return expected_sum<std::uint16_t, float>(
          op, inputs, factor, [&](std::uint16_t half) { return widened(dtype, half); },
          [&](float value) { return narrowed(dtype, value); });
  }
}

// Numbers of 0.7 to 1.9 that need rounding, so that products of nine are normal in f16 too; any
// bytes for integers, half of them 0 for bools.
std::vector<std::byte> numbers_of(Dtype dtype, SeededNumbers& random) {
  std::vector<std::byte> result(kCount * size_of(dtype));
  for (std::size_t i = 0; i < kCount; ++i) {
    const double value = 0.7 + 1.2 * random.unit();
    if (dtype == Dtype::f32) put(result, i, static_cast<float>(value));
    else if (dtype == Dtype::f64) put(result, i, value);
    else if (is_half(dtype)) put(result, i, narrowed(dtype, static_cast<float>(value)));
    else if (dtype == Dtype::i32) put(result, i, static_cast<std::int32_t>(random()));
    else if (dtype == Dtype::u8 || random.below(2) == 0)
      put(result, i, static_cast<std::uint8_t>(random()));
  }
  return result;
}

TEST(TreeSum, IsTheBalancedTreeRoundedOnceWhereverItsTargetLies) {
  SeededNumbers random(test::seed(1));
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
          for (int i = 0; i < count; ++i) values.push_back(numbers_of(dtype, random));
          const auto wanted = expected_sum(dtype, op, values, factor);
          std::vector<ConstBuffer> inputs;
          for (const auto& v : values) inputs.push_back({v.data(), kCount, dtype});
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
