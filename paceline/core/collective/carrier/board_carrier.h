// The calls of a group that its board carries (board.h), once all ranks have found each other's
// pages: barriers and all_reduces.
//
// THREAD: reactor's driver only.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/traffic.h"
#include "paceline/core/collective/carrier/board.h"
#include "paceline/core/collective/carrier/carrier.h"
#include "paceline/core/collective/carrier/device_reduction.h"
#include "paceline/core/collective/carrier/shared_reduction.h"

namespace paceline::collective {

class BoardCarrier final : public PostingCarrier {
 public:
  // `awaits`: called when a call begins to wait for its device. `members` and `traffic` outlive it.
  BoardCarrier(const Members& members, std::uint32_t group, Traffic& traffic,
               std::function<void(const Request&, StagedCall::Moment)> awaits);

  // Whether ranks carry out this call on a board when they have one: the same for all calls that
  // match.
  static bool suits(const Call& call, int ranks);
  // Whether the caller's thread may do so at once: it is over before it could hand it over.
  static bool is_short(const Call& call);

  void open();   // offers this rank's page
  void close();  // and withdraws it
  // Whether it is settled if the ranks have a board. REQUIRES: every rank is known to have opened.
  bool meet();
  std::vector<int> awaited_pages() const;  // the ranks whose pages may still come

  Result<> begin(std::uint64_t sequence, Request& request) override;
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    Delivery delivery) override;
  Result<Progress> advance() override;
  Awaited awaited() const override;
  void give_up() override;

  Stand stand() const override {
    if (board_) return Stand::ready;
    return met_ && !others_know_ ? Stand::awaited : Stand::over;
  }
  bool has_posted(int rank, std::uint64_t sequence) const override {
    return board_ && board_->has_posted(rank, sequence);
  }
  void leave(int peer) override;
  // Changes while any rank works on the call.
  std::uint64_t movement() const {
    if (on_devices_) return on_devices_->movement();
    return reduction_ ? reduction_->movement() : 0;
  }
  // Whether ranks may reach each other's device memory, as far as is known. THREAD: any.
  bool may_go_direct() const { return may_go_direct_.load(std::memory_order_relaxed); }

  void set_asleep(bool asleep) {
    if (board_) board_->set_asleep(asleep);
  }
  // Whether a rank slept since this was asked last, so that a frame that wakes it waits to go out.
  bool take_woke() { return std::exchange(woke_, false); }

 private:
  using Memory = SharedReduction::Memory;

  Memory create(std::uint64_t segment, std::size_t bytes);
  transport::Offered offered(std::uint64_t segment) const;  // the worst of all
  void leave_operation();
  void leave_board();
  void tell_obstacle(const std::string& why);
  void tell_withheld(const std::vector<int>& ranks);
  SharedReduction::Offer offer(const Request& request);
  std::uint64_t reachable(Bytes buffer) const;
  bool all_have_posted() const;
  void sum_short();
  Progress sum_posted();
  Result<> post_on_device(Request& request);
  Result<Progress> advance_on_devices();
  void wake(int ranks);  // the first ones

  const Members& members_;
  const std::uint32_t group_;
  Traffic& traffic_;
  const std::function<void(const Request&, StagedCall::Moment)> awaits_;
  std::atomic<bool> may_go_direct_ = true;
  Memory own_page_, stage_;
  std::vector<std::byte> read_;  // of others' inputs, kept from call to call
  std::optional<Board> board_;
  bool is_open_ = false;
  bool was_reachable_ = false;  // this rank, when the others tried its door
  bool met_ = false;
  bool others_know_ = false;  // that this rank posts no more
  bool told_withheld_ = false;
  bool woke_ = false;
  // The call that was posted last.
  std::uint64_t sequence_ = 0;
  const Request* request_ = nullptr;
  bool is_posted_sum_ = false;                   // asked at each look
  std::optional<SharedReduction> reduction_;     // under way
  std::optional<DeviceReduction> on_devices_;    // instead
  std::optional<transport::SharedRegion> lent_;  // its output
};

}  // namespace paceline::collective
