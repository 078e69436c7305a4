#include "paceline/torch/parallel/scaled_copy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace paceline::parallel {
namespace {

TEST(ScaledCopy, has_the_bits_of_a_multiplication_for_every_size_offset_and_layout) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t count : {0, 1, 7, 63, 70'000, 70'001, 140'003}) {
      for (const std::int64_t offset : {0, 1, 3, 15}) {
        for (const double factor : {1.0, 0.0, 128.0, 1.0 / 3}) {
          const at::Tensor from = at::randn({count + offset}, type).slice(0, offset);
          at::Tensor memory = at::full({count + 40}, 7, type),
                     to = memory.slice(0, offset, offset + count);
          scaled_copy(from, factor, to);
          ASSERT_TRUE(at::equal(to, factor == 1 ? from : from * factor))
              << count << " at " << offset << " times " << factor;
          ASSERT_TRUE(memory.slice(0, 0, offset).eq(7).all().item<bool>())
              << "wrote before its place";
          ASSERT_TRUE(memory.slice(0, offset + count).eq(7).all().item<bool>())
              << "wrote behind its place";
        }
      }
    }
  }
  const at::Tensor rows = at::randn({300, 500});
  at::Tensor columns = at::empty({500, 300}).t();
  scaled_copy(rows, 3, columns);
  EXPECT_TRUE(at::equal(columns, rows * 3));
  at::Tensor like = at::empty_like(columns);
  scaled_copy(columns, 2, like);
  EXPECT_TRUE(at::equal(like, columns * 2));
}

TEST(ScaledCopy, counts_as_a_change_of_its_target) {
  for (const std::int64_t count : {10, 100'000}) {
    at::Tensor to = at::empty({count});
    const auto before = to._version();
    scaled_copy(at::ones({count}), 2, to);
    EXPECT_GT(to._version(), before);
  }
}

}  // namespace
}  // namespace paceline::parallel
