// WorkerMachine: a worker's side of a table. It pushes updates to all ranges, and pulls values that
// its pacing allows.
//
// On networks that lose messages it sends again whatever has no answer, and takes answers that come
// twice once. Where ranges have several replicas it does so when their chain has changed, and keeps
// each push until it is answered. Where workers step their own copies, a row need not hold all own pushes: the worker
// keeps each difference until a row tells that it is in (`own`), and adds what is missing. The
// answer to a push says nothing about that: it may be on its way when a row with the push comes,
// and a row without it may come after the answer.
//
// A newcomer joins all ranges, takes the highest clock that they answer, and tells it to all of
// them: without that second step it would wait for itself where the range's lowest clock, which is
// its own there, is too old.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/core/coordination/awaited.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/server/control/part_servers.h"
#include "paceline/core/server/table/table_spec.h"
#include "paceline/core/server/wire/packet.h"

namespace paceline::server {

struct WorkerOptions {
  bool is_newcomer = false;         // joins a table in which others are at work
  machine::Time resend_after = {};  // zero: the network loses nothing
};

// It reads the shape, which must outlive it. THREAD: one.
class WorkerMachine {
 public:
  WorkerMachine(const TableShape& shape, int member, const WorkerOptions& options,
                std::uint32_t timer);

  // --- what the worker does; each returns what is to be sent ---

  machine::Actions start(machine::Time now);
  // First values, of all elements, and the rule's state with them; empty: another worker gives
  // them.
  machine::Actions assign(Bytes values, const RuleState& state = {});
  // REQUIRES: can_push(), and all elements. It ends this clock.
  machine::Actions push(Bytes values, double weight, const std::vector<double>& settings);
  machine::Actions pull();
  // Pushes nothing more until all workers are quiet; then it has pulled, with all their pushes in
  // the values, and all go on at one clock. Where messages may be lost, they meet before they push.
  // REQUIRES: as pull(), and first values.
  machine::Actions quiesce();
  machine::Actions leave();

  // Asks each range that owes this worker something whom it waits for. Where messages may be lost,
  // so may the answers.
  machine::Actions ask();
  bool has_heard() const { return servers_.have_answered(); }  // all that were asked
  coordination::Awaited awaited() const;             // as they said, where they still owe it
  std::uint64_t movement() const { return heard_; }  // grows when a range has given something

  // The chains of the table's ranges have changed: sends what has no answer to those that take it
  // now.
  machine::Actions configure(const std::vector<Chain>& chains);

  // --- what has come of it ---

  bool is_ready() const { return to_join_ == 0; }  // at once, but for newcomers
  bool is_assigned() const { return to_assign_ == 0; }
  bool may_push() const { return is_ready() && may_push_; }  // it has read what it needs
  bool can_push() const;                                     // and its window has room
  std::uint64_t pushes() const { return sides_.front().pushes; }
  std::uint64_t answered() const;  // by all ranges: pushes up to this one
  bool is_answered() const { return answered() == pushes(); }
  bool has_pulled() const { return !is_pulling_; }
  bool has_left() const { return to_leave_ == 0; }
  // The values that the last pull brought. REQUIRES: has_pulled().
  const std::vector<std::byte>& values() const { return values_; }
  // The rule's state after quiesce(), once: it is gone then.
  RuleState take_state() { return std::exchange(state_, {}); }
  // The last row of the first range told these; and the updates of this worker by their staleness.
  const RowFacts& facts() const { return facts_; }
  const std::map<std::uint64_t, std::uint64_t>& staleness() const { return staleness_; }
  std::int64_t clock() const { return clock_; }
  // The clock of each row of the last pull, by range.
  std::vector<std::int64_t> row_clocks() const;
  std::uint64_t dropped() const;  // pushes that were dropped, the most of a range
  const std::optional<Failure>& failure() const { return servers_.failure(); }

  // --- machine ---

  machine::Actions on_packet(int from, Packet packet, machine::Time now);
  machine::Actions on_timer(machine::Time now);
  void on_lost(int peer) { servers_.on_lost(peer); }

 private:
  enum class Joining : std::uint8_t { no, asks, tells };
  // The state of one range here.
  struct Side {
    std::uint64_t pushes = 0, answered = 0;
    bool was_assigned = false;
    std::uint32_t dropped = 0;
    std::map<std::uint64_t, machine::Message> unanswered;  // where messages may be lost
    std::deque<std::pair<std::uint64_t, std::vector<std::byte>>> differences;
    std::optional<std::int64_t> awaits_row;  // its least clock
    std::int64_t row_clock = 0;
    std::uint64_t row_version = 0;       // that it has read
    std::optional<std::uint32_t> awake;  // the last quiesce, until the range has gone on
    Joining joining = Joining::no;
    std::optional<machine::Message> assigning;
    bool is_leaving = false;
  };

  bool is_owed(const Side& side) const;
  void note_missing(std::size_t range, const Packet& packet);
  void send(std::size_t range, Packet packet);
  void send_again(std::size_t range);
  void ask(std::size_t range);
  void tell_join(std::size_t range);
  void answer(std::size_t range, const Packet& packet);
  void join_answered(std::size_t range, const Packet& packet);
  void row(std::size_t range, const Packet& packet);
  void became_quiet(std::size_t range, const Packet& packet);
  void note(std::size_t range, const RowFacts& facts);
  void store(std::size_t range, const Packet& packet);
  void tell_rounds(const std::vector<Round>& rounds);
  void end_pull();
  std::int64_t least_clock() const;
  bool forgets() const { return !servers_.may_lose_messages() && !servers_.are_replicated(); }

  const TableShape& shape_;
  const bool is_newcomer_;
  PartServers servers_;
  std::vector<Side> sides_;  // by range
  std::vector<std::byte> values_;
  std::int64_t clock_ = 0;
  bool has_pushed_ = false;  // at this clock
  bool may_push_ = true;     // it has read what this clock needs
  bool is_pulling_ = false;
  bool is_quiescing_ = false;  // its pull waits until all are
  std::vector<Round> rounds_;  // of the first range, as the present pull has told
  std::uint32_t pull_ = 0;     // its number
  std::size_t rows_missing_ = 0, to_join_ = 0, to_assign_ = 0, to_leave_ = 0;  // ranges
  std::uint64_t heard_ = 0;                                                    // packets
  RuleState state_;
  RowFacts facts_;
  std::map<std::uint64_t, std::uint64_t> staleness_;
};

}  // namespace paceline::server
