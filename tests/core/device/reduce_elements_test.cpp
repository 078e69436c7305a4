// The arithmetic of devices' kernels beside that of the host. Covers operands.h too.
#include "paceline/core/device/reduce_elements.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "paceline/core/collective/carrier/tree_sum.h"
#include "tests/support/reduce_on_host.h"
#include "tests/support/seed.h"

namespace paceline::device {
namespace {

constexpr std::size_t kCount = 3000;

// Drawn bits: many of them are NaNs, infinities, zeros of both signs and denormal numbers.
std::vector<std::byte> drawn(Dtype dtype, std::mt19937_64& draw) {
  std::vector<std::byte> bytes(kCount * size_of(dtype));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(draw());
  if (!is_floating(dtype)) return bytes;
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < kCount; ++i) {
    std::byte* const high = bytes.data() + (i + 1) * size - 2;  // sign, exponent and first digits
    const std::uint16_t ones = dtype == Dtype::f16 ? 0x7c00 : dtype == Dtype::f64 ? 0x7ff0 : 0x7f80;
    std::uint16_t bits = 0;
    std::memcpy(&bits, high, sizeof bits);
    switch (draw() % 8) {
      case 0: bits |= ones; break;                               // infinities and NaNs
      case 1: bits &= static_cast<std::uint16_t>(~ones); break;  // small ones
      case 2:
        std::memset(high + 2 - size, 0, size), bits = static_cast<std::uint16_t>(bits & 0x8000);
        break;
      case 3:
        std::memset(high + 2 - size, 0, size),
            bits = static_cast<std::uint16_t>((bits & 0x8000) | ones);
        break;
      default: break;
    }
    std::memcpy(high, &bits, sizeof bits);
  }
  return bytes;
}

struct Sums {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::byte> of_host, of_kernel;
};

Sums reduce_both(ReduceOp op, Dtype dtype, int ranks, double factor, std::mt19937_64& draw) {
  Sums sums;
  std::vector<ConstBuffer> buffers;
  for (int r = 0; r < ranks; ++r) sums.inputs.push_back(drawn(dtype, draw));
  for (const auto& input : sums.inputs) buffers.push_back({input.data(), kCount, dtype});
  sums.of_host.resize(kCount * size_of(dtype));
  collective::TreeSum tree_sum(ranks, sums.of_host.size());
  tree_sum(op, buffers, {sums.of_host.data(), kCount, dtype}, factor);

  std::vector<std::vector<std::byte>> memory = sums.inputs;  // outputs in place of the inputs
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (auto& one : memory) {
    from.push_back(one.data());
    to.push_back(one.data());
  }
  const Reduction reduction{
      .op = op, .dtype = dtype, .count = kCount, .factor = factor, .inputs = from, .outputs = to};
  test::reduce_on_host(dtype, step_of(op), operands_of(reduction));
  sums.of_kernel = memory[0];
  for (const auto& one : memory) EXPECT_EQ(one, memory[0]);
  return sums;
}

TEST(ReduceElements, HasTheBitsOfTheHostForAllTypesAndReductions) {
  std::mt19937_64 draw(test::seed(4410));
  for (int type = 1; is_known(static_cast<Dtype>(type)); ++type) {
    for (int number = 1; is_known(static_cast<ReduceOp>(number)); ++number) {
      const auto dtype = static_cast<Dtype>(type);
      const auto op = static_cast<ReduceOp>(number);
      if (!can_reduce(op, dtype)) continue;
      for (int ranks = 2; ranks <= Device::kMostOperands; ++ranks) {
        SCOPED_TRACE(fmt::format("{} of {}, {} ranks", name_of(op), name_of(dtype), ranks));
        const double factor = op == ReduceOp::average ? 1.0 / ranks : 1.0;
        const Sums sums = reduce_both(op, dtype, ranks, factor, draw);
        const std::size_t size = size_of(dtype);
        for (std::size_t i = 0; i < kCount; ++i) {
          const auto at = static_cast<std::ptrdiff_t>(i * size);
          const bool are_equal =
              std::equal(sums.of_host.begin() + at,
                         sums.of_host.begin() + at + static_cast<std::ptrdiff_t>(size),
                         sums.of_kernel.begin() + at);
          ASSERT_TRUE(are_equal) << "element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::device
