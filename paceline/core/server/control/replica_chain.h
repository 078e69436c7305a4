// ReplicaChain: one server's part in the chain of a range (table/chain.h), or of another part of a
// table: it keeps the state and the entries that the next server may lack, hands entries on, and
// knows how far they have come.
//
// The state is a value that changes by entries alone (RangeState of machine/ and ShareState of
// sparse/): State{shape, number}, apply(entry), complaint(entry), top(), write() and read().
//
// An entry is committed when the last server has it: then it outlives any loss of servers that
// leaves one which is ready. A server that is cut in discards what it had, takes a snapshot from the
// server before it, and follows the log. It is ready when that server is, and it has all that
// server had in this generation: before that, entries which were answered may be missing in it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/table/chain.h"
#include "paceline/core/server/wire/chain_packet.h"

namespace paceline::server {

// A value, but for the shape that it reads. THREAD: one.
template <typename State>
class ReplicaChain {
 public:
  using Shape = typename State::Shape;
  using Entry = typename State::Entry;
  using Packet = ChainPacketOf<Entry>;

  // A server that `is_fresh` begins with the table's first state, and is ready.
  ReplicaChain(const Shape& shape, std::size_t range, int own, const Chain& chain, bool is_fresh);

  const State& state() const { return state_; }
  const Chain& chain() const { return chain_; }
  bool is_head() const { return chain_.is_head(own_) && has_state_; }
  bool is_tail() const { return chain_.is_tail(own_) && has_state_; }
  bool has_state() const { return has_state_; }
  bool is_ready() const { return is_ready_; }
  // It is the first server and has no state: the one that had it ended before it handed it on.
  bool has_lost_state() const { return chain_.is_head(own_) && !has_state_; }
  std::uint64_t commit() const { return commit_; }  // the last entry that all servers have
  bool joiner_has_caught_up() const { return is_caught_; }
  std::size_t logged() const { return log_.size(); }

  // The next entry. REQUIRES: is_head().
  void enter(Entry entry);
  // The chain has changed; nothing if it is of no newer generation.
  void configure(const Chain& chain);
  // A failure (io): the packet makes no sense here.
  Result<> on_packet(int from, Packet packet);
  // Messages may have been lost: says again what may be missing.
  void say_again();

  // Hands on and acknowledges what has come; to be called at the end of an event.
  machine::Actions flow();

 protected:
  State& changing_state() { return state_; }

 private:
  // The server behind this one, as it is known in this generation.
  struct Successor {
    bool has_state = false, is_ready = false;
    std::uint64_t top = 0;   // the last entry that it has
    std::uint64_t sent = 0;  // the last that it was sent
    bool is_sent_state = false;
    std::optional<std::uint64_t> goal = {};  // what this server had when that one had a state
    bool is_told_ready = false;              // by which entry it is
  };

  std::optional<int> successor() const { return chain_.behind(own_); }
  Result<> take_entries(const Packet& packet);
  Result<> take_snapshot(const Packet& packet);
  Result<> take_acknowledgement(const Packet& packet);
  void advance(std::uint64_t commit);
  void hand_on(int to);
  void acknowledge();
  void forget();
  bool has_logged(std::uint64_t index) const;
  void send(int to, Packet packet);

  const Shape* shape_;
  std::uint32_t range_;
  int own_;
  Chain chain_;
  State state_;
  bool has_state_, is_ready_;
  std::deque<Entry> log_;  // the last entries of the state
  std::uint64_t commit_ = 0;
  std::optional<Successor> successor_;  // since it has said what it has
  std::map<int, Packet> early_;         // acknowledgements of later generations
  bool is_caught_ = false, must_acknowledge_ = false;
  machine::Actions actions_;
};

template <typename State>
ReplicaChain<State>::ReplicaChain(const Shape& shape, std::size_t range, int own,
                                  const Chain& chain, bool is_fresh)
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

template <typename State>
void ReplicaChain<State>::enter(Entry entry) {
  if (successor()) log_.push_back(entry);
  state_.apply(std::move(entry));
  if (!successor()) log_.clear();
}

template <typename State>
bool ReplicaChain<State>::has_logged(std::uint64_t index) const {
  return index <= state_.top() && state_.top() - index < log_.size();
}

// A server that is not in the chain any more, or is cut in, discards what it had.
template <typename State>
void ReplicaChain<State>::configure(const Chain& chain) {
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
    state_ = State(*shape_, range_);
  }
  std::erase_if(early_, [&](const auto& one) { return one.second.generation < chain.generation; });
  const auto next = successor();
  const auto early = next ? early_.find(*next) : early_.end();
  if (early != early_.end() && early->second.generation == chain.generation)
    std::ignore = take_acknowledgement(early_.extract(early).mapped());
}

template <typename State>
Result<> ReplicaChain<State>::on_packet(int from, Packet packet) {
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

template <typename State>
Result<> ReplicaChain<State>::take_entries(const Packet& packet) {
  if (!has_state_) return Done{};
  std::uint64_t index = packet.index;
  for (const Entry& entry : packet.entries) {
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

template <typename State>
Result<> ReplicaChain<State>::take_snapshot(const Packet& packet) {
  if (has_state_ && packet.index <= state_.top()) return Done{};
  transport::WireReader reader(packet.state);
  State state(*shape_, range_);
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

template <typename State>
Result<> ReplicaChain<State>::take_acknowledgement(const Packet& packet) {
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
  // It need not come to what this server has by now: workers may push without a pause.
  if (packet.has_state && !next.goal) next.goal = state_.top();
  is_caught_ |= joins && packet.has_state && packet.index >= *next.goal;
  if (!joins && packet.has_state) advance(packet.commit);
  return Done{};
}

template <typename State>
void ReplicaChain<State>::advance(std::uint64_t commit) {
  if (commit <= commit_ || commit > state_.top()) return;
  commit_ = commit;
  must_acknowledge_ = true;
}

template <typename State>
void ReplicaChain<State>::say_again() {
  must_acknowledge_ = true;
  if (!successor_) return;
  successor_->sent = successor_->top;
  successor_->is_sent_state = successor_->is_told_ready = false;
}

template <typename State>
machine::Actions ReplicaChain<State>::flow() {
  if (is_tail() && is_ready_) advance(state_.top());
  if (has_state_ && chain_.has(own_) && successor_) hand_on(*successor());
  if (std::exchange(must_acknowledge_, false)) acknowledge();
  forget();
  return std::exchange(actions_, {});
}

// A server without a state, or one that lacks entries which are gone here, gets the whole state.
template <typename State>
void ReplicaChain<State>::hand_on(int to) {
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
  Packet packet{.kind = ChainKind::forward, .index = next.sent};
  if (is_ready_ && chain_.has(to) && !next.is_ready) packet.ready_at = state_.top();
  const auto first = log_.end() - static_cast<std::ptrdiff_t>(state_.top() - next.sent);
  packet.entries.assign(first, log_.end());
  next.sent = state_.top();
  next.is_told_ready |= tells_ready;
  send(to, std::move(packet));
}

template <typename State>
void ReplicaChain<State>::acknowledge() {
  if (const auto to = chain_.before(own_))
    send(*to, {.kind = ChainKind::acknowledge,
               .index = state_.top(),
               .commit = commit_,
               .has_state = has_state_,
               .is_ready = is_ready_});
}

// Entries that are not committed stay here: if the next server ends, the one behind it may lack
// them.
template <typename State>
void ReplicaChain<State>::forget() {
  if (!successor()) return log_.clear();
  const std::uint64_t known = successor_ && successor_->has_state ? successor_->top : 0;
  const std::uint64_t needed = std::min(commit_, known);
  while (!log_.empty() && state_.top() - log_.size() < needed) log_.pop_front();
}

template <typename State>
void ReplicaChain<State>::send(int to, Packet packet) {
  packet.range = range_;
  packet.generation = chain_.generation;
  actions_.emplace_back(machine::Send{to, encode(packet)});
}

}  // namespace paceline::server
