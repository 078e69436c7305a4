#include "paceline/core/pipeline/run/transfer.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/core/pipeline/orders.h"

namespace paceline::pipeline {
namespace {

TEST(Transfer, EveryMessageIsReceivedByTheRankToWhichItIsSent) {
  for (const auto& one : testing::order_cases(4, 8)) {
    const Placement placement = one.order.placement();
    std::set<std::pair<int, Transfer>> sent, received;  // by receiver; the peer is the sender
    for (int rank = 0; rank < one.ranks; ++rank) {
      for (const Operation& operation : one.order.ranks[static_cast<std::size_t>(rank)]) {
        if (auto out = transfer_after(placement, operation)) {
          const int to = out->peer;
          out->peer = rank;
          sent.emplace(to, *out);
        }
        if (const auto in = transfer_before(placement, operation)) received.emplace(rank, *in);
      }
    }
    EXPECT_EQ(sent, received) << one.text();
    const auto cuts = static_cast<std::size_t>(one.ranks > 1 ? one.order.stages - 1 : 0);
    EXPECT_EQ(sent.size(), 2 * cuts * static_cast<std::size_t>(one.micro_batches)) << one.text();
  }
}

TEST(Transfer, NoTwoMessagesBetweenTwoRanksHaveTheSameTag) {
  const Order order = testing::order_of("interleaved:chunks=4", 2, 6);
  const Placement placement = order.placement();
  std::set<std::tuple<std::size_t, int, std::uint32_t>> tags;  // of sender and receiver
  std::size_t messages = 0;
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (const Operation& operation : order.ranks[rank]) {
        const auto out = transfer_after(placement, operation);
        for (std::uint32_t tensor = 0; out && tensor < 3; ++tensor, ++messages) {
          const auto turn = step * 6 + static_cast<std::uint64_t>(out->micro_batch);
          tags.emplace(rank, out->peer, tag_of(placement, *out, tensor, turn));
        }
      }
    }
  }
  EXPECT_EQ(tags.size(), messages);
}

TEST(Transfer, IsNamedByWhatItCarries) {
  EXPECT_EQ(text_of(Transfer{Kind::forward, 1, 3, 0}),
            "the activation of micro-batch 3 for stage 1");
  EXPECT_EQ(text_of(Transfer{Kind::backward, 0, 3, 1}),
            "the gradient of micro-batch 3 for stage 0");
}

}  // namespace
}  // namespace paceline::pipeline
