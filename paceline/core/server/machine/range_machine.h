// RangeMachine: one range on one server of its chain.
//
// The first server takes each worker's pushes exactly once and in their order, closes steps, and
// makes entries of them (range_state.h), which it hands on (range_chain.h). It answers when an entry
// is committed. The last server answers pulls when their rows may be read. A chain of one server is
// both.
//
// Networks may delay, overtake, lose and double: a push carries a number, 1, 2, ... of its worker
// and range. A push whose number is not above the last one taken is a repeat, and is answered again
// once it is committed; the next one is taken; later ones are held. Taking whatever is above the
// highest number seen would lose pushes that were overtaken. A server holds at most kWindow pushes
// of a worker. Pushes that are held, or in an open step, are on the first server alone: workers keep
// them until they are answered, and send them again when it is lost.
//
// Members come and go: a newcomer joins each range, takes the highest clock that they answer, tells
// it to all of them, and begins. A worker that leaves or is lost takes back what was not yet
// applied, and never comes again under its number.
//
// A worker that waits for long asks whom the range waits for (range_missing.cpp).
//
// Members may be quiet (range_quiesce.cpp): nothing waits for one that is. When all are, all they
// have pushed is applied, and each gets the same row; no push is taken until all have it. Then they
// go on at one clock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/machine/range_chain.h"
#include "paceline/core/server/wire/packet.h"

namespace paceline::server {

// A value, but for the shape that it reads. THREAD: one.
class RangeMachine {
 public:
  // `timer` is the number by which it asks for its timer. A server that `is_fresh` begins with the
  // first state of the table, others get it from the chain.
  RangeMachine(const TableShape& shape, std::size_t range, std::uint32_t timer, int own,
               const Chain& chain, bool is_fresh = true);
  // A range of one server.
  RangeMachine(const TableShape& shape, std::size_t range, std::uint32_t timer)
      : RangeMachine(shape, range, timer, shape.server_of(range),
                     {.servers = {shape.server_of(range)}}) {}

  // Asked before each answer to a worker: false while this server may have been taken out of the
  // chain without having heard of it.
  using MayAnswer = std::function<bool(machine::Time)>;
  void ask_before_answers(MayAnswer may_answer) { may_answer_ = std::move(may_answer); }

  machine::Actions on_packet(int from, Packet packet, machine::Time now);
  // A failure (io): the packet makes no sense.
  Result<machine::Actions> on_chain_packet(int from, ChainPacket packet, machine::Time now);
  machine::Actions on_timer(machine::Time now);
  machine::Actions on_lost(int peer, machine::Time now);
  machine::Actions configure(const Chain& chain, machine::Time now);
  machine::Actions say_again(machine::Time now);  // to other servers, where messages may be lost

  const RangeValue& value() const { return chain_.state().value(); }
  const RangeChain& chain() const { return chain_; }
  std::int64_t pushes() const { return pushes_; }  // taken in all
  // Or members whose end is not committed, or not answered, yet.
  bool has_members() const {
    return !members().empty() || !leaving_.empty() || chain_.commit() != state().top();
  }
  // The most pushes that it has held of one worker, and the most steps open at a time.
  std::size_t most_held() const { return most_held_; }
  std::size_t most_open_steps() const { return most_open_; }
  // Its rows tell these rounds, by which other ranges follow it: those of the first range alone do.
  std::vector<Round> rounds_to_tell() const;

 private:
  struct Pull {
    std::uint32_t number = 0;
    std::int64_t least = 0;
    std::uint64_t own = 0;
  };
  struct Quiet {
    std::uint32_t number = 0;
    std::uint64_t own = 0;  // pushes that come before it
  };
  struct Decision {
    std::uint64_t entry = 0, sequence = 0;
    std::uint32_t dropped = 0;
  };
  // A worker, as the first server knows it. Pushes are taken (accepted in order), then decided by an
  // entry: applied, to be shown, folded or dropped.
  struct Sender {
    std::uint64_t taken = 0;
    std::int64_t last_stamp = -1;
    std::map<std::uint64_t, Push> held;          // overtook others, by their numbers
    std::size_t gathered = 0;                    // taken, and in an open step
    std::deque<Decision> decisions;              // not committed yet
    std::uint64_t committed = 0;                 // pushes up to this one are decided for good
    std::uint32_t dropped = 0;                   // of them
    std::optional<std::uint64_t> owed;           // an answer, when this entry is committed
    std::optional<Quiet> quiet;                  // it asked for one
    bool is_owed_quiet = false;                  // the row of the moment at which all were quiet
    std::optional<std::uint64_t> leaves_behind;  // when this push is taken
  };
  // A worker that reads.
  struct Reader {
    std::optional<Pull> pull;  // that waits for its row
    std::uint32_t last_pull = 0;
  };

  bool takes(const Packet& packet) const;
  void take(int from, Packet packet, machine::Time now);
  void assign(int from, const Packet& packet);
  void push(int from, Packet packet, machine::Time now);
  void take_held(machine::Time now);
  void pull(int from, const Packet& packet);
  void join(int from, const Packet& packet);
  void leave(int worker);
  void end(int worker);  // which hears that it has left
  void let_leave();
  void awake(int from, std::uint32_t number);
  void quiesce(int from, const Packet& packet);
  void ask(int from, const Packet& packet);
  Packet missing_for(int from, const Packet& question) const;
  Packet lacking_entries() const;
  Packet lacking(int from, Lack lack, const std::function<bool(int)>& lacks) const;
  void let_quiesce(machine::Time now);  // those that have asked, and wakes them when all are quiet
  void send_quiet(int to);

  std::string complaint(int from, const Push& push) const;
  void offer(Push push, machine::Time now);
  void gather(std::int64_t step, Push push, machine::Time now);
  void offer_late(Push push, machine::Time now);
  void close_steps(machine::Time now);
  void close(std::vector<Push> pushes);
  bool can_close(std::int64_t step, std::span<const Push> gathered) const;
  bool all_have_passed(std::int64_t step) const;
  // A table with rounds needs these (range_rounds.cpp).
  void hear_of(const std::vector<Round>& rounds);
  void close_rounds();
  std::optional<std::vector<int>> next_round() const;
  bool lacks_round(int from, const Packet& question) const;
  Packet missing_for_round(int from) const;
  bool has_too_few_members() const;  // for a step, with spare workers
  // The pushes of this step by workers that are quiet.
  int of_quiet(std::int64_t step, std::span<const Push> gathered) const;

  const RangeState& state() const { return chain_.state(); }
  const std::map<int, RangeState::Member>& members() const { return state().members(); }
  // Enters what decides this push; what follows from it is owed to its worker.
  void decide(EntryKind kind, Push push);
  void enter(RangeEntry entry) { chain_.enter(std::move(entry)); }
  void begin_as_head();
  void note_decided(const PushFacts& push);
  void send(int to, Packet packet);
  void fail(std::string why);
  void fail_as_lost();
  void send_failure(int to);
  void check_numbers();
  machine::Actions settle(machine::Time now);  // answers and rows; ends an event
  void answer_members();
  void answer_pulls();

  const TableShape* shape_;
  std::uint32_t range_, timer_;
  RangeChain chain_;
  MayAnswer may_answer_;
  // The first server has these:
  std::map<int, Sender> senders_;
  std::set<int> lost_;  // workers that are, also where this server is not the first
  std::set<int> wait_for_values_;
  std::map<int, std::uint64_t> leaving_;            // by worker: the entry of its end
  std::map<std::int64_t, std::vector<Push>> open_;  // by step, in the order of arrival
  std::optional<std::int64_t> timed_out_;           // the step that waits for the quorum alone
  // Rounds of the first range that this one has yet to follow, by number. Numbers begin anew when
  // all were quiet, and a new first server of the chain is told again.
  std::map<std::uint64_t, std::vector<std::int32_t>> told_;
  // Entries that must be committed before anyone hears of first values, or of the last moment at
  // which all were quiet.
  std::uint64_t assigned_by_ = 0, woken_by_ = 0;
  // The last server has these, and with steps that close without some workers the first too:
  std::map<int, Reader> readers_;
  std::optional<std::string> failure_;
  bool is_lost_ = false;  // its servers have ended: that is the failure
  std::size_t most_held_ = 0, most_open_ = 0;
  std::int64_t pushes_ = 0;
  machine::Actions actions_;  // of the present event
};

}  // namespace paceline::server
