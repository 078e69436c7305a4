#include "paceline/core/coordination/ticket_machine.h"

#include <algorithm>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::coordination {

using machine::Actions;
using machine::Message;
using machine::Send;
using machine::Time;

TicketMachine::TicketMachine(int rank, int ranks, std::int64_t parts)
    : rank_(rank), ranks_(ranks), parts_(parts) {
  PACELINE_CHECK(parts >= 0, "tickets for {} parts: an epoch has 0 or more", parts);
}

Message TicketMachine::want() const {
  const std::lock_guard lock(mutex_);
  return {.kind = kWant, .index = epoch_};
}

bool TicketMachine::is_settled() const {
  const std::lock_guard lock(mutex_);
  return in_hand_ || (has_ended() && !asks_) || lost_dealer_;
}

bool TicketMachine::is_forsaken() const {
  const std::lock_guard lock(mutex_);
  return lost_dealer_ && !in_hand_ && !has_ended();
}

std::uint32_t TicketMachine::epoch() const {
  const std::lock_guard lock(mutex_);
  return epoch_;
}

std::optional<std::int64_t> TicketMachine::take() {
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(in_hand_ || (has_ended() && !asks_), "a ticket was taken that has not come");
  if (!in_hand_) ++epoch_;
  return std::exchange(in_hand_, std::nullopt);
}

Actions TicketMachine::on_message(int from, const Message& message, Time) {
  const std::lock_guard lock(mutex_);
  switch (message.kind) {
    case kWant:
      if (from != rank_ || message.index != epoch_ || in_hand_ || asks_ || has_ended() ||
          lost_dealer_)
        return {};
      asks_ = true;
      return {Send{0, {.kind = kAsk, .index = epoch_}}};
    case kAsk: return rank_ == 0 ? deal(from, message.index) : Actions{};
    case kTicket:
      in_hand_ = transport::WireReader(message.payload).integer<std::int64_t>();
      asks_ = false;
      return {};
    case kOver: asks_ = false; [[fallthrough]];
    case kEnd: ended_epochs_ = std::max(ended_epochs_, message.index + 1); return {};
    default: return {};
  }
}

Actions TicketMachine::deal(int to, std::uint32_t epoch) {
  Deal& deal = deals_[epoch];
  Actions actions;
  if (deal.next < parts_) {
    auto part = transport::WireWriter().integer(deal.next++).bytes();
    actions.push_back(Send{to, {.kind = kTicket, .index = epoch, .payload = std::move(part)}});
  } else {
    actions.push_back(Send{to, {.kind = kOver, .index = epoch}});
  }
  if (deal.next < parts_ || std::exchange(deal.is_over, true)) return actions;
  for (int rank = 0; rank < ranks_; ++rank)
    actions.push_back(Send{rank, {.kind = kEnd, .index = epoch}});
  return actions;
}

// All that rank 0 sent before its end has come: an ask without an answer was too late.
Actions TicketMachine::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  if (peer != 0) return {};
  lost_dealer_ = true;
  asks_ = false;
  return {};
}

}  // namespace paceline::coordination
