// The calls of a group that its board carries (board.h), once all ranks have found each other's
// pages: barriers and all_reduces.
//
// THREAD: reactor's driver only.
#pragma once

#include <optional>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/traffic.h"
#include "paceline/core/collective/carrier/group_board.h"
#include "paceline/core/collective/carrier/shared_reduction.h"

namespace paceline::collective {

class BoardCarrier final : public PostingCarrier {
 public:
  // `members`, `traffic` and `board` outlive it.
  BoardCarrier(const Members& members, std::uint32_t group, Traffic& traffic, GroupBoard& board)
      : members_(members), group_(group), traffic_(traffic), board_(board) {}

  // Whether ranks carry out this call on a board when they have one: the same for all calls that
  // match.
  static bool suits(const Call& call, int ranks);
  // Whether the caller's thread may do so at once: it is over before it could hand it over.
  static bool is_short(const Call& call);

  void close();  // withdraws what this rank has offered

  Result<> begin(std::uint64_t sequence, Request& request) override;
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    Delivery delivery) override;
  Result<CallProgress> advance() override;
  AwaitedRanks awaited() const override;
  void give_up() override;

  Stand stand() const override { return board_.stand(); }
  bool has_posted(int rank, std::uint64_t sequence) const override {
    return board_.has_posted(rank, sequence);
  }
  void leave(int peer) override;
  // Changes while any rank works on the call.
  std::uint64_t movement() const { return reduction_ ? reduction_->movement() : 0; }

 private:
  using Memory = SharedReduction::Memory;

  Memory make_stage();
  transport::Offered offered(std::uint64_t segment) const;  // the worst of all
  void leave_operation();
  void tell_withheld(const std::vector<int>& ranks);
  SharedReduction::Offer offer(const Request& request);
  std::uint64_t reachable(Bytes buffer) const;
  bool all_have_posted() const;
  void sum_short();
  CallProgress sum_posted();

  const Members& members_;
  const std::uint32_t group_;
  Traffic& traffic_;
  GroupBoard& board_;
  Memory stage_;
  std::vector<std::byte> read_;  // of others' inputs, kept from call to call
  bool told_withheld_ = false;
  // The call that was posted last.
  std::uint64_t sequence_ = 0;
  const Request* request_ = nullptr;
  bool is_posted_sum_ = false;                   // asked at each look
  std::optional<SharedReduction> reduction_;     // under way
  std::optional<transport::SharedRegion> lent_;  // its output
};

}  // namespace paceline::collective
