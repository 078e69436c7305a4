#include "paceline/core/collective/board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/collective/balanced_tree.h"
#include "paceline/core/collective/combine.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective {
namespace {

using Pages = std::vector<std::shared_ptr<const transport::SharedMemory>>;

Pages::value_type memory_of(std::size_t bytes) {
  return std::make_shared<const transport::SharedMemory>(
      transport::SharedMemory::create(bytes).value());
}

Pages pages_of(int ranks) {
  Pages pages;
  for (int rank = 0; rank < ranks; ++rank) pages.push_back(memory_of(Board::page_bytes()));
  return pages;
}

std::vector<Board> boards_of(int ranks) {
  const Pages pages = pages_of(ranks);
  std::vector<Board> boards;
  for (int rank = 0; rank < ranks; ++rank) boards.emplace_back(rank, pages);
  return boards;
}

std::vector<std::byte> input_of(int rank, std::uint64_t sequence, std::size_t bytes) {
  SeededNumbers numbers(sequence * 1000 + static_cast<std::uint64_t>(rank));
  std::vector<std::byte> input(bytes);
  for (std::byte& b : input) b = static_cast<std::byte>(numbers.below(256));
  return input;
}

// Finite values, so that bits are comparable: small whole numbers of the type.
std::vector<std::byte> numbers_of(Dtype dtype, int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(testing::value<int>(rank, i)) / 7;
  if (dtype == Dtype::f32) {
    const Bytes bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> result(count * size_of(dtype));
  if (is_half(dtype)) {
    const ConstBuffer source = const_buffer_of(values);
    // x max x rounds each value once.
    accumulate(ReduceOp::max, source, source, {result.data(), count, dtype}, 1);
  } else {
    result = input_of(rank, 7, result.size());
    if (dtype == Dtype::f64) {
      std::vector<double> doubles(values.begin(), values.end());
      std::memcpy(result.data(), doubles.data(), result.size());
    }
  }
  return result;
}

TEST(Board, SumsByTheBalancedTreeAndRoundsOnce) {
  constexpr std::size_t kCount = 37;
  for (const Dtype dtype :
       {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::u8, Dtype::boolean}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                              ReduceOp::product, ReduceOp::bor}) {
      if (!can_reduce(op, dtype)) continue;
      for (int ranks = 2; ranks <= 7; ++ranks) {
        auto boards = boards_of(ranks);
        const Dtype wide = is_half(dtype) ? Dtype::f32 : dtype;
        std::vector<std::vector<std::byte>> inputs, sums;
        std::vector<ConstBuffer> leaves;
        for (int rank = 0; rank < ranks; ++rank) {
          inputs.push_back(numbers_of(dtype, rank, kCount));
          boards[static_cast<std::size_t>(rank)].post(1, 5, inputs.back());
        }
        for (const auto& input : inputs) leaves.push_back({input.data(), kCount, dtype});
        const double factor = op == ReduceOp::average ? 1.0 / ranks : 1;
        int sums_left = ranks - 1;
        sums.reserve(inputs.size());
        const ConstBuffer wanted = balanced_sum(leaves, [&](ConstBuffer left, ConstBuffer right) {
          const bool is_last = --sums_left == 0;
          sums.emplace_back(kCount * sizeof(double));
          const Buffer sum{sums.back().data(), kCount, is_last ? dtype : wide};
          combine(op, left, right, sum, is_last ? factor : 1);
          return ConstBuffer(sum);
        });
        for (Board& board : boards) {
          ASSERT_EQ(board.state(1, 5), Board::State::all_equal);
          std::vector<std::byte> got(kCount * size_of(dtype));
          board.sum(1, op, {got.data(), kCount, dtype}, factor);
          EXPECT_EQ(std::memcmp(got.data(), wanted.data, got.size()), 0)
              << name_of(op) << " " << name_of(dtype) << ", " << ranks << " ranks";
        }
      }
    }
  }
}

TEST(Board, TellsWhoIsMissingAndWhoDiffers) {
  auto boards = boards_of(3);
  boards[0].post(1, 5, {});
  boards[2].post(1, 6, {});
  EXPECT_EQ(boards[2].state(1, 6), Board::State::differs) << "though rank 1 is missing";
  EXPECT_TRUE(boards[1].has_posted(0, 1));
  EXPECT_FALSE(boards[0].has_posted(1, 1));
  boards[2].post(2, 5, {});
  EXPECT_EQ(boards[0].state(2, 5), Board::State::some_missing);
}

TEST(Board, ALaterPostOfTheSameOperationChangesNothing) {
  auto boards = boards_of(2);
  const auto first = input_of(0, 1, 8), second = input_of(0, 2, 8), other = input_of(1, 1, 8);
  boards[0].post(1, 5, first);
  boards[0].post(1, 6, second);
  boards[1].post(1, 5, other);
  std::vector<std::byte> sum(8), wanted(8);
  ASSERT_EQ(boards[1].state(1, 5), Board::State::all_equal);
  boards[1].sum(1, ReduceOp::sum, {sum.data(), 8, Dtype::u8}, 1);
  reduce(ReduceOp::sum, Dtype::u8, first, other, wanted);
  EXPECT_EQ(sum, wanted);
}

TEST(Board, RanksThatRunAheadNeverWriteOverWhatOthersStillRead) {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kOperations = test::kSanitized ? 2000 : 20000;
  const Pages pages = pages_of(kRanks);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        Board board(rank, pages);
        for (std::uint64_t k = 1; k <= kOperations; ++k) {
          const std::size_t bytes = k % 3 == 0 ? 4000 : k % 40;
          const auto own = input_of(rank, k, bytes);
          std::vector<std::byte> sum(bytes), wanted = input_of(0, k, bytes);
          board.post(k, k * k, own);
          while (board.state(k, k * k) != Board::State::all_equal) std::this_thread::yield();
          board.sum(k, ReduceOp::bxor, {sum.data(), bytes, Dtype::u8}, 1);
          for (int other = 1; other < kRanks; ++other)
            reduce(ReduceOp::bxor, Dtype::u8, wanted, input_of(other, k, bytes), wanted);
          if (sum != wanted) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Board, APageThatIsTooShortIsNone) {
  EXPECT_FALSE(Board::is_page(nullptr));
  EXPECT_FALSE(Board::is_page(memory_of(4096)));
  EXPECT_TRUE(Board::is_page(memory_of(Board::page_bytes())));
}

}  // namespace
}  // namespace paceline::collective
