#include "paceline/core/server/machine/range_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace paceline::server {

RangeChain::RangeChain(const TableShape& shape, std::size_t range, int own, const Chain& chain,
                       bool is_fresh)
    : shape_(&shape),
      range_(static_cast<std::uint32_t>(range)),
      own_(own),
      chain_(chain),
      state_(shape, range),
      has_state_(is_fresh),
      is_ready_(is_fresh),
      must_acknowledge_(!is_fresh) {
  // The first servers of a job begin with the same state and know it.
  if (is_fresh && chain.generation == 1 && successor() && !chain.joiner)
    successor_ = {.has_state = true, .is_ready = true, .is_told_ready = true};
}

void RangeChain::enter(RangeEntry entry) {
  if (successor()) log_.push_back(entry);
  state_.apply(std::move(entry));
  if (!successor()) log_.clear();
}

bool RangeChain::has_logged(std::uint64_t index) const {
  return index <= state_.top() && state_.top() - index < log_.size();
}

// A server that is not in the chain any more, or is cut in, discards what it had.
void RangeChain::configure(const Chain& chain) {
  if (chain.generation <= chain_.generation) return;
  const bool was_joiner = chain_.joiner == own_;
  chain_ = chain;
  successor_.reset();
  is_caught_ = false;
  must_acknowledge_ = true;
  if (!chain_.has(own_) && !(chain_.joiner == own_ && was_joiner)) {
    has_state_ = is_ready_ = false;
    log_.clear();
    commit_ = 0;
    state_ = RangeState(*shape_, range_);
  }
  std::erase_if(early_, [&](const auto& one) { return one.second.generation < chain.generation; });
  const auto next = successor();
  const auto early = next ? early_.find(*next) : early_.end();
  if (early != early_.end() && early->second.generation == chain.generation)
    std::ignore = take_acknowledgement(early_.extract(early).mapped());
}

Result<> RangeChain::on_packet(int from, ChainPacket packet) {
  if (packet.generation > chain_.generation && packet.kind == ChainKind::acknowledge) {
    early_.insert_or_assign(from, std::move(packet));
    return Done{};
  }
  if (packet.generation != chain_.generation) return Done{};
  if (packet.kind == ChainKind::acknowledge) {
    return successor() == from ? take_acknowledgement(packet) : Done{};
  }
  if (chain_.before(own_) != from) return Done{};
  return packet.kind == ChainKind::forward ? take_entries(packet) : take_snapshot(packet);
}

Result<> RangeChain::take_entries(const ChainPacket& packet) {
  if (!has_state_) return Done{};
  std::uint64_t index = packet.index;
  for (const RangeEntry& entry : packet.entries) {
    if (++index != state_.top() + 1) continue;
    if (const std::string why = state_.complaint(entry); !why.empty())
      return Failure{Fault::io, fmt::format("{}: a bug, please report it", why), {}};
    enter(entry);
    // A server that is not ready counts for nothing yet, and is watched.
    must_acknowledge_ |= !is_ready_;
  }
  if (!is_ready_ && chain_.has(own_) && state_.top() >= packet.ready_at)
    is_ready_ = must_acknowledge_ = true;
  return Done{};
}

Result<> RangeChain::take_snapshot(const ChainPacket& packet) {
  if (has_state_ && packet.index <= state_.top()) return Done{};
  transport::WireReader reader(packet.state);
  RangeState state(*shape_, range_);
  if (!state.read(reader) || !reader.ok_and_empty() || state.top() != packet.index)
    return Failure{Fault::io,
                   fmt::format("a snapshot of range {} of {} bytes makes no sense: a bug, please "
                               "report it",
                               range_, packet.state.size()),
                   {}};
  state_ = std::move(state);
  log_.clear();
  has_state_ = must_acknowledge_ = true;
  return Done{};
}

Result<> RangeChain::take_acknowledgement(const ChainPacket& packet) {
  if (packet.has_state && packet.index > state_.top())
    return Failure{Fault::io,
                   fmt::format("a server has {} entries of range {}, and the one before it {}: a "
                               "bug, please report it",
                               packet.index, range_, state_.top()),
                   {}};
  const bool is_first = !successor_;
  if (is_first) successor_.emplace();
  Successor& next = *successor_;
  next.has_state |= packet.has_state;
  next.is_ready |= packet.is_ready;
  if (packet.has_state) next.top = std::max(next.top, packet.index);
  if (is_first || (packet.has_state && next.sent < next.top)) next.sent = next.top;
  const bool joins = chain_.joiner == successor();
  is_caught_ |= joins && packet.has_state && packet.index == state_.top();
  if (!joins && packet.has_state) advance(packet.commit);
  return Done{};
}

void RangeChain::advance(std::uint64_t commit) {
  if (commit <= commit_ || commit > state_.top()) return;
  commit_ = commit;
  must_acknowledge_ = true;
}

void RangeChain::say_again() {
  must_acknowledge_ = true;
  if (!successor_) return;
  successor_->sent = successor_->top;
  successor_->is_sent_state = successor_->is_told_ready = false;
}

machine::Actions RangeChain::flow() {
  if (is_tail() && is_ready_) advance(state_.top());
  if (has_state_ && chain_.has(own_) && successor_) hand_on(*successor());
  if (std::exchange(must_acknowledge_, false)) acknowledge();
  forget();
  return std::exchange(actions_, {});
}

// A server without a state, or one that lacks entries which are gone here, gets the whole state.
void RangeChain::hand_on(int to) {
  Successor& next = *successor_;
  const bool lacks_gone = next.sent < state_.top() && !has_logged(next.sent + 1);
  if (lacks_gone || (!next.has_state && !next.is_sent_state)) {
    transport::WireWriter writer;
    state_.write(writer);
    send(to, {.kind = ChainKind::snapshot, .index = state_.top(), .state = writer.bytes()});
    next.sent = state_.top();
    next.is_sent_state = true;
  }
  const bool tells_ready = is_ready_ && chain_.has(to) && !next.is_ready && !next.is_told_ready;
  if (next.sent == state_.top() && !tells_ready) return;
  ChainPacket packet{.kind = ChainKind::forward, .index = next.sent};
  if (is_ready_ && chain_.has(to) && !next.is_ready) packet.ready_at = state_.top();
  const auto first = log_.end() - static_cast<std::ptrdiff_t>(state_.top() - next.sent);
  packet.entries.assign(first, log_.end());
  next.sent = state_.top();
  next.is_told_ready |= tells_ready;
  send(to, std::move(packet));
}

void RangeChain::acknowledge() {
  if (const auto to = chain_.before(own_))
    send(*to, {.kind = ChainKind::acknowledge,
               .index = state_.top(),
               .commit = commit_,
               .has_state = has_state_,
               .is_ready = is_ready_});
}

// The next server may be lost, and the one behind it lack what is not committed.
void RangeChain::forget() {
  if (!successor()) return log_.clear();
  const std::uint64_t known = successor_ && successor_->has_state ? successor_->top : 0;
  const std::uint64_t needed = std::min(commit_, known);
  while (!log_.empty() && state_.top() - log_.size() < needed) log_.pop_front();
}

void RangeChain::send(int to, ChainPacket packet) {
  packet.range = range_;
  packet.generation = chain_.generation;
  actions_.emplace_back(machine::Send{to, encode(packet)});
}

}  // namespace paceline::server
