#include "paceline/core/collective/carrier/device_kernel_carrier.h"

#include <fmt/format.h>

#include "paceline/core/base/log.h"

namespace paceline::collective {

DeviceKernelCarrier::DeviceKernelCarrier(
    const Members& members, Traffic& traffic, GroupBoard& board,
    std::function<void(const Request&, StagedCall::Moment)> awaits)
    : members_(members), traffic_(traffic), board_(board), awaits_(std::move(awaits)) {}

// A rank that cannot lend its memory posts what no other rank does, so that all leave.
Result<> DeviceKernelCarrier::begin(std::uint64_t sequence, Request& request) {
  sequence_ = sequence;
  request_ = &request;
  fingerprint_ = request.fingerprint ^ DeviceReduction::kMark;
  auto offer = DeviceReduction::offer(*request.staged);
  if (offer) {
    board_->post(sequence, fingerprint_, std::as_bytes(std::span(&*offer, 1)));
  } else {
    tell_obstacle(offer.error().what);
    const std::uint64_t refusal = 1 + static_cast<std::uint64_t>(members_.rank());
    board_->post(sequence, fingerprint_ ^ refusal, Bytes());
  }
  board_.wake(members_.size());
  return Done{};
}

Result<> DeviceKernelCarrier::received(int peer, const transport::FrameHeader& header, Bytes,
                                       Delivery) {
  return unexpected(members_, peer, header, "which device kernels carry");
}

Result<CallProgress> DeviceKernelCarrier::advance() {
  if (!reduction_) {
    switch (board_->state(sequence_, fingerprint_)) {
      case Board::State::some_missing: return CallProgress::waiting;
      case Board::State::differs: return CallProgress::by_messages;
      case Board::State::all_equal: break;
    }
    reduction_.emplace(*board_, members_, sequence_, *request_,
                       [this](StagedCall::Moment moment) { awaits_(*request_, moment); });
  }
  auto advanced = reduction_->advance();
  if (!advanced || *advanced == CallProgress::soon || *advanced == CallProgress::waiting)
    return advanced;
  board_.wake(members_.size());
  if (*advanced == CallProgress::moved) return advanced;
  if (*advanced == CallProgress::by_messages) {
    tell_obstacle(reduction_->obstacle());
  } else {
    const auto others = static_cast<std::size_t>(members_.size() - 1);
    traffic_.bytes_reduced += reduction_->bytes_of_own_chunk() * others;
  }
  reduction_.reset();
  return advanced;
}

// From now on this rank's calls are staged.
void DeviceKernelCarrier::tell_obstacle(const std::string& why) {
  if (!may_reach_devices_.exchange(false) || why.empty()) return;
  warn(fmt::format("{}, so buffers on devices go through the host", why));
}

AwaitedRanks DeviceKernelCarrier::awaited() const {
  if (!reduction_) return {};
  return {.ranks = reduction_->awaited()};
}

void DeviceKernelCarrier::leave(int peer) {
  reduction_.reset();
  board_.left_by(peer, sequence_);
}

void DeviceKernelCarrier::give_up() {
  board_.forbid_writes();
  if (reduction_) reduction_->give_up();
  reduction_.reset();
}

}  // namespace paceline::collective
