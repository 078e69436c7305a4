// The all_reduces of a group whose ranks reach each other's device memory: the ranks post on the
// group's board where their buffers lie, and kernels of theirs sum them up (device_reduction.h).
//
// THREAD: reactor's driver only, unless said otherwise.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/traffic.h"
#include "paceline/core/collective/carrier/device_reduction.h"
#include "paceline/core/collective/carrier/group_board.h"

namespace paceline::collective {

class DeviceKernelCarrier final : public PostingCarrier {
 public:
  // `awaits`: called when a call begins to wait for its device. `members`, `traffic` and `board`
  // outlive it.
  DeviceKernelCarrier(const Members& members, Traffic& traffic, GroupBoard& board,
                      std::function<void(const Request&, StagedCall::Moment)> awaits);

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
  // Whether ranks may reach each other's device memory, as far as is known. THREAD: any.
  bool may_reach_devices() const { return may_reach_devices_.load(std::memory_order_relaxed); }

 private:
  void tell_obstacle(const std::string& why);

  const Members& members_;
  Traffic& traffic_;
  GroupBoard& board_;
  const std::function<void(const Request&, StagedCall::Moment)> awaits_;
  std::atomic<bool> may_reach_devices_ = true;
  // The call that was posted last.
  std::uint64_t sequence_ = 0;
  std::uint64_t fingerprint_ = 0;
  const Request* request_ = nullptr;
  std::optional<DeviceReduction> reduction_;  // under way
};

}  // namespace paceline::collective
