// Short barriers and all_reduces of ranks that share no memory: each rank sends its input to all
// others, in one frame that also tells what it calls. When all are here each sums them up for
// itself. It is the form over links of a board (board.h).
//
// Between two ranks this sends no more than any all_reduce, in one round instead of two; among more
// it sends more, which pays while a frame's way takes longer than its bytes.
//
// A peer is at most one operation ahead: two places for each rank take turns.
// THREAD: reactor's driver only.
#pragma once

#include <array>
#include <vector>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/traffic.h"
#include "paceline/core/collective/carrier/carrier.h"
#include "paceline/core/collective/carrier/tree_sum.h"

namespace paceline::collective {

class LinkCarrier final : public PostingCarrier, private transport::SendListener {
 public:
  // The longest input of two ranks. Among more, the most that a rank sends to all others together:
  // more of it within a host, where a longer copy costs less than another round.
  static constexpr std::size_t kLongestInput = 256 << 10;
  static constexpr std::size_t kLongestSentOverLinks = 16 << 10;
  static constexpr std::size_t kLongestSentOnAHost = 48 << 10;
  static std::size_t longest_input(int ranks, bool on_a_host);
  // Among more a frame to each costs more than a few with several inputs (gathered_inputs.h).
  static constexpr int kMostRanks = Members::kMany - 1;

  // `members` and `traffic` outlive it.
  LinkCarrier(const Members& members, std::uint32_t group, Traffic& traffic);

  Result<> begin(std::uint64_t sequence, Request& request) override;
  // A frame of type `posted` from a peer, of an operation that this rank is in or comes to next.
  MutableBytes place(int peer, const transport::FrameHeader& header) override;
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    Delivery delivery) override;
  Result<CallProgress> advance() override;
  AwaitedRanks awaited() const override { return {}; }  // it is over when all have posted
  void give_up() override { given_up_ = true; }         // nobody writes there

  Stand stand() const override { return given_up_ ? Stand::awaited : Stand::ready; }
  bool has_posted(int rank, std::uint64_t sequence) const override;
  void leave(int) override { give_up(); }
  bool is_sending() const override { return unsent_ > 0; }

 private:
  struct Post {
    std::uint64_t sequence = 0;  // no operation has this number
    std::uint64_t fingerprint = 0;
    std::size_t bytes = 0;
    std::vector<std::byte> input;
  };
  bool takes(std::size_t input_bytes) const {
    return input_bytes <= longest_ && members_.size() <= kMostRanks;
  }
  void sent(std::uint64_t) override { --unsent_; }
  Post& post_of(int rank, std::uint64_t sequence) {
    return posts_[static_cast<std::size_t>(rank)][sequence % 2];
  }
  void sum();

  const Members& members_;
  const std::uint32_t group_;
  Traffic& traffic_;
  const std::size_t longest_;
  bool given_up_ = false;
  std::uint64_t posted_ = 0;                // the operation that this rank has posted last
  const Request* request_ = nullptr;        // its call
  int unsent_ = 0;                          // frames of it that still read the input
  std::vector<std::array<Post, 2>> posts_;  // of the others, by rank
  std::vector<ConstBuffer> inputs_;
  TreeSum tree_sum_;
};

}  // namespace paceline::collective
