// RangeChain: one server's part in the chain of a range (table/chain.h): it keeps the state and the
// entries that the next server may lack, hands entries on, and knows how far they have come.
//
// An entry is committed when the last server has it: then it outlives any loss of servers that
// leaves one which is ready. A server that is cut in discards what it had, takes a snapshot from the
// server before it, and follows the log. It is ready when that server is, and it has all that
// server had in this generation: before that, entries which were answered may be missing in it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/machine/range_state.h"
#include "paceline/core/server/table/chain.h"
#include "paceline/core/server/wire/chain_packet.h"

namespace paceline::server {

// A value, but for the shape that it reads. THREAD: one.
class RangeChain {
 public:
  // A server that `is_fresh` begins with the table's first state, and is ready.
  RangeChain(const TableShape& shape, std::size_t range, int own, const Chain& chain,
             bool is_fresh);

  const RangeState& state() const { return state_; }
  // The row for a worker's pull.
  RangeValue::View row_for(int reader, std::uint32_t pull, std::int64_t least) {
    return state_.row_for(reader, pull, least);
  }
  const Chain& chain() const { return chain_; }
  bool is_head() const { return chain_.is_head(own_) && has_state_; }
  bool is_tail() const { return chain_.is_tail(own_) && has_state_; }
  bool has_state() const { return has_state_; }
  bool is_ready() const { return is_ready_; }
  std::uint64_t commit() const { return commit_; }  // the last entry that all servers have
  bool joiner_has_caught_up() const { return is_caught_; }
  std::size_t logged() const { return log_.size(); }

  // The next entry. REQUIRES: is_head().
  void enter(RangeEntry entry);
  // The chain has changed; nothing if it is of no newer generation.
  void configure(const Chain& chain);
  // A failure (io): the packet makes no sense here.
  Result<> on_packet(int from, ChainPacket packet);
  // Messages may have been lost: says again what may be missing.
  void say_again();

  // Hands on and acknowledges what has come; to be called at the end of an event.
  machine::Actions flow();

 private:
  // The server behind this one, as it is known in this generation.
  struct Successor {
    bool has_state = false, is_ready = false;
    std::uint64_t top = 0;   // the last entry that it has
    std::uint64_t sent = 0;  // the last that it was sent
    bool is_sent_state = false;
    bool is_told_ready = false;  // by which entry it is
  };

  std::optional<int> successor() const { return chain_.behind(own_); }
  Result<> take_entries(const ChainPacket& packet);
  Result<> take_snapshot(const ChainPacket& packet);
  Result<> take_acknowledgement(const ChainPacket& packet);
  void advance(std::uint64_t commit);
  void hand_on(int to);
  void acknowledge();
  void forget();
  bool has_logged(std::uint64_t index) const;
  void send(int to, ChainPacket packet);

  const TableShape* shape_;
  std::uint32_t range_;
  int own_;
  Chain chain_;
  RangeState state_;
  bool has_state_, is_ready_;
  std::deque<RangeEntry> log_;  // the last entries of the state
  std::uint64_t commit_ = 0;
  std::optional<Successor> successor_;  // since it has said what it has
  std::map<int, ChainPacket> early_;    // acknowledgements of later generations
  bool is_caught_ = false, must_acknowledge_ = false;
  machine::Actions actions_;
};

}  // namespace paceline::server
