// ShareMachine: one share of a sparse table on one server of its chain.
//
// The first server takes each worker's pushes exactly once and in their order, closes steps, and
// makes changes of them (share_state.h), which it hands on (control/replica_chain.h). It answers when
// a change is committed. The last server answers pulls when their rows may be read. A chain of one
// server is both.
//
// Networks may delay, overtake, lose and double: a push carries a number, 1, 2, ... of its worker. A
// push whose number is not above the last one taken is a repeat, and is answered again once it is
// committed; the next one is taken; later ones are held, at most kWindow of a worker. Those that are
// held, or in an open step, are on the first server alone: workers keep them until they are answered.
// A pull waits until the share has the clock that it asks for and the pushes that its worker sent
// before it.
//
// A request may name a list of ids by its hash alone. If the server does not know the list (it keeps
// the last few of each worker), it says so, and the worker sends the request again with its ids.
//
// Workers fetch stored rows with their state, from the last server, and store such rows: both while
// all of them rest, or before they begin, for a share does not look after the order of these and
// pushes.
//
// Workers may rest: nothing waits for one that does. When all do, all they have pushed is applied,
// and they go on at one clock. A worker rests from the change on that decides its last push, so that
// no server believes in a rest whose pushes it may lack.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/sparse/share_chain.h"
#include "paceline/core/server/sparse/sparse_packet.h"

namespace paceline::server {

// It reads the shape, which must outlive it. THREAD: one.
class ShareMachine {
 public:
  // A server that `is_fresh` begins with the first state of the table, others get it from the chain.
  ShareMachine(const SparseShape& shape, std::size_t share, int own, const Chain& chain,
               bool is_fresh = true);

  // Asked before each answer to a worker: false while this server may have been taken out of the
  // chain without having heard of it.
  using MayAnswer = std::function<bool(machine::Time)>;
  void ask_before_answers(MayAnswer may_answer) { may_answer_ = std::move(may_answer); }

  machine::Actions on_packet(int from, SparsePacket packet, machine::Time now);
  // A failure (io): the packet makes no sense.
  Result<machine::Actions> on_chain_packet(int from, ShareChainPacket packet, machine::Time now);
  machine::Actions on_lost(int peer, machine::Time now);
  machine::Actions configure(const Chain& chain, machine::Time now);
  machine::Actions say_again(machine::Time now);  // to other servers, where messages may be lost

  const ShareValue& value() const { return state().value(); }
  const ShareChain& chain() const { return chain_; }
  std::int64_t pushes() const { return pushes_; }  // taken in all
  // Or members whose end is not committed, or not answered, yet.
  bool has_members() const {
    return !members().empty() || !leaving_.empty() || chain_.commit() != state().top();
  }
  // The most pushes and pulls that it has held of one worker, and the most steps open at a time.
  std::size_t most_held() const { return most_held_; }
  std::size_t most_open_steps() const { return most_open_; }
  void forget_lists() { lists_.clear(); }  // as one that has lost them: for tests

 private:
  struct Pull {
    std::int64_t least = 0;
    std::uint64_t own = 0;
    SharedIds ids;
  };
  struct Rest {
    std::uint64_t number = 0, own = 0;  // pushes that come before it
  };
  // That comes with a change.
  struct Owed {
    std::uint64_t change = 0, number = 0;
  };
  // A worker, as the first server knows it. Pushes are taken (accepted in order), then decided by a
  // change.
  struct Sender {
    std::uint64_t taken = 0;
    std::int64_t last_stamp = -1;
    std::map<std::uint64_t, SparsePush> held = {};  // overtook others, by their numbers
    std::deque<Owed> decisions = {};                // not committed yet [number: of the push]
    std::uint64_t committed = 0;                    // pushes up to this one are decided for good
    bool is_owed = false;                           // the word that pushes are decided
    bool is_owed_begun = false;
    std::optional<Rest> rest = {};
    bool is_owed_rested = false;
    std::optional<std::uint64_t> leaves_behind = {};  // when this push is taken
    std::optional<Owed> stored = {};                  // an exchange that is to be answered
  };
  // A worker that reads.
  struct Reader {
    std::map<std::uint64_t, Pull> pulls = {};  // that wait for their rows, by number
    std::optional<SparsePacket> fetch = {};
  };

  bool takes(const SparsePacket& packet) const;
  void hear(int from, const SparsePacket& packet);
  void begin(int from, const SparsePacket& packet);
  void push(int from, const SparsePacket& packet);
  void pull(int from, const SparsePacket& packet);
  void rest(int from, const SparsePacket& packet);
  void leave(int worker);
  void end(int worker);  // which hears that it has left
  void let_leave();
  void fetch(int from, const SparsePacket& packet);
  void store(int from, const SparsePacket& packet);
  void ask(int from, const SparsePacket& packet);
  // The ids that a request names, or null, after it has asked for them.
  SharedIds ids_of(int from, const SparsePacket& packet);
  std::string complaint(int from, const SparsePacket& packet) const;
  void offer(SparsePush push);
  void close_steps();
  void let_rest();
  bool lacks_push(int member, std::int64_t clock) const;

  const ShareState& state() const { return chain_.state(); }
  const std::map<int, ShareState::Member>& members() const { return state().members(); }
  // Enters a change; what it decides is owed to the workers.
  void enter(ShareChange change);
  void begin_as_head();

  void send(int to, SparsePacket packet);
  void fail(std::string why);
  void fail_as_lost();
  void send_failure(int to);
  machine::Actions settle(machine::Time now);  // answers and rows; ends an event
  void note_committed();
  void answer_members();
  void answer_pulls();
  void send_rested(int to);
  void send_rows(int to, std::uint64_t number, const Pull& pull);
  void send_fetched(int to, const SparsePacket& packet);

  const SparseShape* shape_;
  const std::uint32_t share_;
  ShareChain chain_;
  MayAnswer may_answer_;
  std::map<int, ListCache> lists_;  // by worker
  // The first server has these:
  std::map<int, Sender> senders_;
  std::set<int> lost_;                    // workers that are, also where it is not the first
  std::map<int, std::uint64_t> leaving_;  // by worker: the change of its end
  std::map<std::int64_t, std::vector<SparsePush>> open_;  // by step
  // Changes that must be committed before anyone is answered, or told that all have rested.
  std::uint64_t begun_by_ = 0, woken_by_ = 0;
  // A worker is told no clock that may vanish: this one is committed, those follow with changes.
  struct ClockAt {
    std::uint64_t change = 0;
    std::int64_t clock = 0;
  };
  std::int64_t clock_ = 0;
  std::deque<ClockAt> clocks_;
  // The last server has these:
  std::map<int, Reader> readers_;
  std::optional<std::string> failure_;
  bool is_lost_ = false;  // its servers have ended: that is the failure
  std::size_t most_held_ = 0, most_open_ = 0;
  std::int64_t pushes_ = 0;
  machine::Actions actions_;  // of the present event
};

}  // namespace paceline::server
