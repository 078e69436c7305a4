#include "paceline/core/collective/carrier/board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "paceline/core/base/seed.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/seed.h"
#include "tests/support/shared_memory.h"

namespace paceline::collective {
namespace {

using Pages = std::vector<std::shared_ptr<const transport::SharedMemory>>;

Pages pages_of(int ranks) {
  Pages pages;
  for (int rank = 0; rank < ranks; ++rank)
    pages.push_back(test::shared_memory_of(Board::page_bytes()));
  return pages;
}

std::vector<Board> boards_of(int ranks) {
  const Pages pages = pages_of(ranks);
  std::vector<Board> boards;
  for (int rank = 0; rank < ranks; ++rank) boards.emplace_back(rank, pages);
  return boards;
}

std::vector<std::byte> input_of(int rank, std::uint64_t sequence, std::size_t bytes) {
  SeededNumbers numbers(test::seed(sequence * 1000 + static_cast<std::uint64_t>(rank)));
  std::vector<std::byte> input(bytes);
  for (std::byte& b : input) b = static_cast<std::byte>(numbers.below(256));
  return input;
}

TEST(Board, SumsWhatAllHavePosted) {
  for (int ranks = 2; ranks <= 7; ++ranks) {
    constexpr std::size_t kCount = 37;
    auto boards = boards_of(ranks);
    std::vector<std::vector<float>> inputs;
    for (int rank = 0; rank < ranks; ++rank) {
      for (float& v : inputs.emplace_back(kCount)) v = static_cast<float>(rank + 1) / 7;
      boards[static_cast<std::size_t>(rank)].post(1, 5, std::as_bytes(std::span(inputs.back())));
    }
    std::vector<ConstBuffer> leaves;
    for (const auto& input : inputs) leaves.push_back(const_buffer_of(input));
    std::vector<float> wanted(kCount);
    TreeSum(ranks, kCount * sizeof(float))(ReduceOp::average, leaves, buffer_of(wanted),
                                           1.0 / ranks);
    for (Board& board : boards) {
      ASSERT_EQ(board.state(1, 5), Board::State::all_equal);
      std::vector<float> got(kCount);
      board.sum(1, ReduceOp::average, 0, buffer_of(got));
      EXPECT_EQ(got, wanted) << ranks << " ranks";
    }
  }
}

TEST(Board, OnlyTheLastPostOrOneThatDiffersMayBeAwaited) {
  auto boards = boards_of(4);
  const auto posts = [&](std::size_t rank, std::uint64_t sequence, std::uint64_t fingerprint) {
    boards[rank].post(sequence, fingerprint, {});
    return boards[rank].may_be_awaited();
  };
  for (const std::size_t rank : {2, 0, 3}) EXPECT_FALSE(posts(rank, 1, 5)) << rank;
  EXPECT_TRUE(posts(1, 1, 5));
  EXPECT_FALSE(posts(1, 2, 6));
  EXPECT_TRUE(posts(3, 2, 7)) << "rank 1 must see that it differs, though two are missing";
}

TEST(Board, ACountMayBeAwaitedWhereAtMostOneRankIsBehind) {
  auto boards = boards_of(4);
  for (Board& board : boards) board.post(1, 5, {});
  const auto counts = [&](std::size_t rank, std::uint64_t value) {
    boards[rank].count(1, Board::Counter::reduced, value);
    return boards[rank].may_be_awaited();
  };
  EXPECT_FALSE(counts(0, 1));
  EXPECT_FALSE(counts(0, 2));
  EXPECT_FALSE(counts(1, 1)) << "ranks 2 and 3 have not counted";
  EXPECT_TRUE(counts(2, 1)) << "it is the last that rank 3 waits for";
  EXPECT_FALSE(counts(2, 2));
  EXPECT_TRUE(counts(3, 1));
}

TEST(Board, ReachesAllWhereEveryPageSaysWhereItsRanksMemoryIs) {
  const Pages pages = pages_of(3);
  for (const int rank : {0, 2})
    Board::initialize(pages[std::size_t(rank)]->bytes(), transport::own_remote_memory());
  EXPECT_TRUE(Board(1, pages).reaches_all()) << "its own memory it has";
  EXPECT_FALSE(Board(0, pages).reaches_all()) << "rank 1 says nothing";
  auto wrong = transport::own_remote_memory();
  ++wrong.token;
  Board::initialize(pages[1]->bytes(), wrong);
  EXPECT_FALSE(Board(0, pages).reaches_all());
}

TEST(Board, WritesToEveryRankButThoseThatForbidIt) {
  const Pages pages = pages_of(3);
  for (const auto& page : pages) Board::initialize(page->bytes(), transport::own_remote_memory());
  std::vector<Board> boards;
  for (int rank = 0; rank < 3; ++rank) boards.emplace_back(rank, pages);
  std::vector<int> buffers(3);
  const auto write = [&](int writer, int to, int value) {
    return boards[std::size_t(writer)].write(
        to, reinterpret_cast<std::uint64_t>(&buffers[std::size_t(to)]),
        std::as_bytes(std::span(&value, 1)));
  };
  EXPECT_TRUE(write(0, 1, 5));
  EXPECT_TRUE(boards[1].forbid_writes());
  EXPECT_FALSE(write(0, 1, 6));
  EXPECT_FALSE(write(2, 1, 6));
  EXPECT_TRUE(write(1, 2, 7)) << "its own writes are the others' affair";
  EXPECT_EQ(buffers, (std::vector{0, 5, 7}));
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
  boards[1].sum(1, ReduceOp::sum, 0, {sum.data(), 8, Dtype::u8});
  reduce(ReduceOp::sum, Dtype::u8, first, other, wanted);
  EXPECT_EQ(sum, wanted);
}

TEST(Board, RanksThatRunAheadNeverWriteOverWhatOthersStillRead) {
  constexpr int kRanks = 3;
  const std::uint64_t operations = test::kSanitized ? 1000 : 20000;
  const Pages pages = pages_of(kRanks);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        Board board(rank, pages);
        for (std::uint64_t k = 1; k <= operations; ++k) {
          const std::size_t bytes = k % 3 == 0 ? 4000 : k % 40;
          const auto own = input_of(rank, k, bytes);
          std::vector<std::byte> sum(bytes), wanted = input_of(0, k, bytes);
          board.post(k, k * k, own);
          while (board.state(k, k * k) != Board::State::all_equal) std::this_thread::yield();
          board.sum(k, ReduceOp::bxor, 0, {sum.data(), bytes, Dtype::u8});
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
  EXPECT_FALSE(Board::is_page(test::shared_memory_of(4096)));
  EXPECT_TRUE(Board::is_page(test::shared_memory_of(Board::page_bytes())));
}

}  // namespace
}  // namespace paceline::collective
