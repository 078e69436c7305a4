#include "paceline/core/collective/carrier/posted_sum.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <ranges>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/seed.h"
#include "tests/support/shared_memory.h"

namespace paceline::collective::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kCall = 7;  // the fingerprint of all

// All ranks of a board in one thread.
class PostedWorld {
 public:
  PostedWorld(int ranks, int chunks, Dtype dtype, ReduceOp op, std::size_t count)
      : chunks_(chunks), draw_(test::seed(4260 + count)) {
    std::vector<std::shared_ptr<const transport::SharedMemory>> pages;
    for (int rank = 0; rank < ranks; ++rank)
      pages.push_back(test::shared_memory_of(Board::page_bytes()));
    for (int rank = 0; rank < ranks; ++rank) {
      boards.emplace_back(rank, pages);
      outputs.emplace_back(count * size_of(dtype));
    }
    call_ = {.operation = Operation::all_reduce, .op = op, .dtype = dtype, .count = count};
    wanted_.resize(outputs[0].size());
  }

  std::size_t size() const { return boards.size(); }

  void post(std::size_t rank, std::uint64_t sequence) {
    std::vector<float> values(call_.count);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 7 + rank * 5 + sequence * 3) % 11) / 8;
    std::vector<std::byte> input(outputs[rank].size());
    if (is_half(call_.dtype)) {
      const ConstBuffer source = const_buffer_of(values);
      accumulate(ReduceOp::max, source, source, {input.data(), call_.count, call_.dtype}, 1);
    } else if (call_.dtype == Dtype::f32) {
      std::memcpy(input.data(), values.data(), input.size());
    } else {
      for (std::size_t i = 0; i < input.size(); ++i)
        input[i] = static_cast<std::byte>((i * 7 + rank * 5 + sequence) % 4);
    }
    inputs_[sequence].resize(size());
    inputs_[sequence][rank] = input;
    boards[rank].post(sequence, kCall, input);
  }

  Request request_of(std::size_t rank) {
    Request request;
    request.call = call_;
    request.output = {outputs[rank].data(), call_.count, call_.dtype};
    return request;
  }
  CallProgress advance(std::size_t rank, std::uint64_t sequence) {
    const Request request = request_of(rank);
    return PostedSum(boards[rank], chunks_, sequence, request).advance();
  }
  std::vector<int> awaited(std::size_t rank, std::uint64_t sequence) {
    return PostedSum::awaited(boards[rank], chunks_, sequence);
  }

  // The bits of the balanced tree.
  bool holds_sum(std::size_t rank, std::uint64_t sequence) {
    std::vector<ConstBuffer> inputs;
    for (const auto& input : inputs_[sequence])
      inputs.push_back({input.data(), call_.count, call_.dtype});
    const double factor = call_.op == ReduceOp::average ? 1.0 / static_cast<double>(size()) : 1.0;
    TreeSum(static_cast<int>(size()), wanted_.size())(
        call_.op, inputs, {wanted_.data(), call_.count, call_.dtype}, factor);
    return outputs[rank] == wanted_;
  }

  // Ranks post and go on in any order, and a rank that has its sum posts the next operation.
  void run(std::uint64_t operations) {
    std::vector<std::uint64_t> ended(size(), 0), posted(size(), 0);
    const auto is_left = [&](std::size_t rank) { return ended[rank] < operations; };
    for (int turns = 0; std::ranges::any_of(std::views::iota(std::size_t{0}, size()), is_left);) {
      ASSERT_LT(++turns, 1'000'000) << "nobody goes on";
      const auto rank = static_cast<std::size_t>(draw_.below(size()));
      if (!is_left(rank)) continue;
      const std::uint64_t sequence = ended[rank] + 1;
      if (posted[rank] < sequence) {
        post(rank, posted[rank] = sequence);
        continue;
      }
      if (boards[rank].state(sequence, kCall) != Board::State::all_equal) continue;
      if (advance(rank, sequence) != CallProgress::done) continue;
      ASSERT_TRUE(holds_sum(rank, sequence)) << "rank " << rank << ", operation " << sequence;
      ended[rank] = sequence;
    }
  }

  std::vector<Board> boards;
  std::vector<std::vector<std::byte>> outputs;

 private:
  const int chunks_;
  SeededNumbers draw_;
  Call call_;
  std::vector<std::byte> wanted_;
  std::map<std::uint64_t, std::vector<std::vector<std::byte>>> inputs_;
};

TEST(PostedSum, HasTheBitsOfTheTreeInHoweverManyChunks) {
  for (const int ranks : {2, 5, 17, 33}) {
    for (const int chunks : {1, 2, 3, ranks}) {
      if (chunks > ranks) continue;
      for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::i64, Dtype::u8}) {
        for (const std::size_t bytes : {8, 64, 1000, 3072, 4096}) {
          const std::size_t count = bytes / size_of(dtype);
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
            if (op == ReduceOp::average && (dtype == Dtype::i64 || dtype == Dtype::u8)) continue;
            SCOPED_TRACE(fmt::format("{} of {} {}, {} chunks, {} ranks", name_of(op), count,
                                     name_of(dtype), chunks, ranks));
            PostedWorld(ranks, chunks, dtype, op, count).run(4);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(PostedSum, OfAChunkThatAnotherRankHasTakenIsAwaited) {
  PostedWorld world(4, 3, Dtype::f32, ReduceOp::sum, 100);
  for (std::size_t rank = 0; rank < world.size(); ++rank) world.post(rank, 1);
  EXPECT_THAT(world.awaited(3, 1), IsEmpty()) << "it can do all by itself";
  Board& slow = world.boards[1];
  ASSERT_TRUE(slow.take_part(1, 1));
  EXPECT_THAT(world.awaited(3, 1), ElementsAre(1));
  EXPECT_THAT(world.awaited(1, 1), IsEmpty());
  for (const std::size_t rank : {3, 0, 2}) EXPECT_EQ(world.advance(rank, 1), CallProgress::soon);
  // Its 48 elements from 48 on.
  slow.sum(1, ReduceOp::sum, 48, {slow.posted(1, 1).data() + 192, 48, Dtype::f32});
  slow.end_part(1, 1);
  for (const std::size_t rank : {3, 0, 1, 2}) {
    EXPECT_EQ(world.advance(rank, 1), CallProgress::done);
    EXPECT_TRUE(world.holds_sum(rank, 1));
  }
}

// Real ranks, on processors of their own and on two that they share.
TEST(PostedSum, CarriesCallsOfManyRanksWithTheBitsOfMessages) {
  constexpr int kRanks = 19;
  ASSERT_FALSE(Board::each_sums_up(Board::kLongestInput, kRanks));
  for (const double processors : {2.0, double{kRanks}}) {
    run_ranks(kRanks, {.processors = processors}, [&](Job& job) {
      Communicator& world = job.world();
      world.barrier().wait();
      for (int turn = 0; turn < 5; ++turn) {
        for (const std::size_t count : {900, 1023, 1024}) {
          auto posted = thirds(job.rank() + turn, count), messages = posted;
          const std::uint64_t before = world.traffic().messages_sent;
          world.all_reduce(buffer_of(posted), {.algorithm = "board"}).wait();
          ASSERT_EQ(world.traffic().messages_sent, before);
          world.all_reduce(buffer_of(messages), {.algorithm = "direct"}).wait();
          ASSERT_EQ(posted, messages) << count;
        }
      }
    });
  }
}

}  // namespace
}  // namespace paceline::collective::testing
