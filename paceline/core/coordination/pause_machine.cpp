#include "paceline/core/coordination/pause_machine.h"

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

PauseMachine::PauseMachine(int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      here_(static_cast<std::size_t>(ranks)),
      waiting_(here_),
      ended_(here_) {}

// --- the training --------------------------------------------------------------------------------

Message PauseMachine::ask(std::uint32_t reasons) {
  return {.kind = kAsk, .payload = WireWriter().integer(reasons).bytes()};
}

bool PauseMachine::is_called() const {
  const std::lock_guard lock(mutex_);
  return called_ > come_;
}

Message PauseMachine::come(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(called_ > come_, "rank {} came to a pause that was not called", rank_);
  return {.kind = kHere, .index = ++come_, .payload = WireWriter().integer(step).bytes()};
}

bool PauseMachine::has_paused() const {
  const std::lock_guard lock(mutex_);
  return come_ > taken_ && gone_ == come_;
}

Pause PauseMachine::take() {
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(come_ > taken_ && gone_ == come_, "a pause was taken to which not all have come");
  taken_ = come_;
  return pause_;
}

Message PauseMachine::wait_for_pause() {
  const std::lock_guard lock(mutex_);
  ++waits_;
  return {.kind = kWait};
}

bool PauseMachine::is_wait_over() const {
  const std::lock_guard lock(mutex_);
  return waits_over_ == waits_;
}

std::optional<int> PauseMachine::missing() const {
  const std::lock_guard lock(mutex_);
  return missing_;
}

Message PauseMachine::ask_who_is_missing() {
  const std::lock_guard lock(mutex_);
  missing_ranks_.ask();
  return {.kind = kWho};
}

MissingRanks PauseMachine::missing_ranks() const {
  const std::lock_guard lock(mutex_);
  return missing_ranks_;
}

// --- machine -------------------------------------------------------------------------------------

Actions PauseMachine::on_message(int from, const Message& message, Time) {
  const std::lock_guard lock(mutex_);
  Actions actions = hear(from, message);
  if (rank_ == 0) append_decisions(actions);
  return actions;
}

Actions PauseMachine::hear(int from, const Message& message) {
  if (from == rank_ && rank_ != 0 && message.kind <= kWho) return {Send{0, message}};
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
    case kWait: waiting_[sender] = true; return {};
    case kWho: return {Send{from, MissingRanks::answer(kStill, still_missing())}};
    case kStill: missing_ranks_.hear(message); return {};
    case kCall: ++called_; return {};
    case kGo:
      ++gone_;
      pause_.reasons = payload.integer<std::uint32_t>();
      pause_.step = payload.integer<std::int64_t>();
      return {};
    case kWaitOver: ++waits_over_; return {};
    case kMissing: missing_ = static_cast<int>(message.index); return {};
    default: return {};
  }
}

// A rank that has asked for a pause waits for no others before that one is over: so none is open
// when all ranks wait.
void PauseMachine::append_decisions(Actions& actions) {
  const auto tell_all = [&](const Message& message) { append(actions, to_all(message)); };
  if (is_open_ && std::ranges::find(here_, false) == here_.end()) {
    tell_all(
        {.kind = kGo, .payload = WireWriter().integer(open_.reasons).integer(open_.step).bytes()});
    is_open_ = false;
    open_ = {};
    here_.assign(here_.size(), false);
  }
  if (std::ranges::find(waiting_, false) == waiting_.end()) {
    tell_all({.kind = kWaitOver});
    waiting_.assign(waiting_.size(), false);
  }
  const bool somebody_waits = is_open_ || std::ranges::find(waiting_, true) != waiting_.end();
  const auto ended = std::ranges::find(ended_, true);
  if (somebody_waits && ended != ended_.end() && !std::exchange(has_told_missing_, true))
    tell_all({.kind = kMissing, .index = static_cast<std::uint32_t>(ended - ended_.begin())});
}

// While a pause is open, those who have not come to it; else those who still make steps.
std::vector<int> PauseMachine::still_missing() const {
  const std::vector<bool>& those = is_open_ ? here_ : waiting_;
  std::vector<int> missing;
  for (int rank = 0; rank < ranks_; ++rank)
    if (!those[static_cast<std::size_t>(rank)]) missing.push_back(rank);
  return missing;
}

Actions PauseMachine::to_all(const Message& message) const {
  Actions actions;
  for (int rank = 0; rank < ranks_; ++rank)
    if (!ended_[static_cast<std::size_t>(rank)]) actions.push_back(Send{rank, message});
  return actions;
}

// All that the peer had sent came before. Another rank's end is judged by rank 0, which knows
// whether somebody waits for it; without rank 0 nobody is let go any more.
Actions PauseMachine::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  if (peer == 0) missing_ = 0;
  if (rank_ != 0) return {};
  ended_[static_cast<std::size_t>(peer)] = true;
  Actions actions;
  append_decisions(actions);
  return actions;
}

}  // namespace paceline::coordination
