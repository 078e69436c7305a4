#include "paceline/core/coordination/halt_machine.h"

#include <algorithm>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::coordination {

using machine::Actions;
using machine::Message;
using machine::Send;
using machine::Time;
using transport::WireReader;
using transport::WireWriter;

HaltMachine::HaltMachine(int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      here_(static_cast<std::size_t>(ranks)),
      resting_(here_),
      ended_(here_) {}

// --- the training --------------------------------------------------------------------------------

Message HaltMachine::ask(std::uint32_t reasons) {
  return {.kind = kAsk, .payload = WireWriter().integer(reasons).bytes()};
}

bool HaltMachine::is_called() const {
  const std::lock_guard lock(mutex_);
  return called_ > come_;
}

Message HaltMachine::come(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(called_ > come_, "rank {} came to a halt that was not called", rank_);
  return {.kind = kHere, .index = ++come_, .payload = WireWriter().integer(step).bytes()};
}

bool HaltMachine::has_halted() const {
  const std::lock_guard lock(mutex_);
  return come_ > taken_ && gone_ == come_;
}

Halt HaltMachine::take() {
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(come_ > taken_ && gone_ == come_, "a halt was taken to which not all have come");
  taken_ = come_;
  return halt_;
}

Message HaltMachine::rest() {
  const std::lock_guard lock(mutex_);
  ++rests_;
  return {.kind = kRest};
}

bool HaltMachine::is_rest_over() const {
  const std::lock_guard lock(mutex_);
  return rests_over_ == rests_;
}

std::optional<int> HaltMachine::missing() const {
  const std::lock_guard lock(mutex_);
  return missing_;
}

// --- machine -------------------------------------------------------------------------------------

Actions HaltMachine::on_message(int from, const Message& message, Time) {
  const std::lock_guard lock(mutex_);
  Actions actions = hear(from, message);
  if (rank_ == 0) append_decisions(actions);
  return actions;
}

Actions HaltMachine::hear(int from, const Message& message) {
  if (from == rank_ && rank_ != 0 && message.kind <= kRest) return {Send{0, message}};
  WireReader payload(message.payload);
  const auto sender = static_cast<std::size_t>(from);
  switch (message.kind) {
    case kAsk:
      open_.reasons |= payload.integer<std::uint32_t>();
      if (std::exchange(is_open_, true)) return {};
      return to_all({.kind = kCall});
    case kHere:
      here_[sender] = true;
      open_.step = std::max(open_.step, payload.integer<std::int64_t>());
      return {};
    case kRest: resting_[sender] = true; return {};
    case kCall: ++called_; return {};
    case kGo:
      ++gone_;
      halt_.reasons = payload.integer<std::uint32_t>();
      halt_.step = payload.integer<std::int64_t>();
      return {};
    case kRestOver: ++rests_over_; return {};
    case kMissing: missing_ = static_cast<int>(message.index); return {};
    default: return {};
  }
}

// A rank that has asked for a halt does not rest before that halt is over: so no halt is open when
// all ranks rest.
void HaltMachine::append_decisions(Actions& actions) {
  const auto tell_all = [&](const Message& message) {
    const Actions more = to_all(message);
    actions.insert(actions.end(), more.begin(), more.end());
  };
  if (is_open_ && std::ranges::find(here_, false) == here_.end()) {
    tell_all(
        {.kind = kGo, .payload = WireWriter().integer(open_.reasons).integer(open_.step).bytes()});
    is_open_ = false;
    open_ = {};
    here_.assign(here_.size(), false);
  }
  if (std::ranges::find(resting_, false) == resting_.end()) {
    tell_all({.kind = kRestOver});
    resting_.assign(resting_.size(), false);
  }
  const bool somebody_waits = is_open_ || std::ranges::find(resting_, true) != resting_.end();
  const auto ended = std::ranges::find(ended_, true);
  if (somebody_waits && ended != ended_.end() && !std::exchange(has_told_missing_, true))
    tell_all({.kind = kMissing, .index = static_cast<std::uint32_t>(ended - ended_.begin())});
}

Actions HaltMachine::to_all(const Message& message) const {
  Actions actions;
  for (int rank = 0; rank < ranks_; ++rank)
    if (!ended_[static_cast<std::size_t>(rank)]) actions.push_back(Send{rank, message});
  return actions;
}

// All that the peer had sent came before. Another rank's end is judged by rank 0, which knows
// whether somebody waits for it; without rank 0 nobody is let go any more.
Actions HaltMachine::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  if (peer == 0) missing_ = 0;
  if (rank_ != 0) return {};
  ended_[static_cast<std::size_t>(peer)] = true;
  Actions actions;
  append_decisions(actions);
  return actions;
}

}  // namespace paceline::coordination
