// RangeMachine: one range on its server. It takes each worker's pushes exactly once and in their
// order, closes steps, and answers pulls when their rows may be read.
//
// Networks may delay, overtake, lose and double: a push carries a number, 1, 2, ... of its worker
// and range. A push whose number is not above the last one taken is a repeat, and is answered again
// once it is decided; the next one is taken; later ones are held. Taking whatever is above the
// highest number seen would lose pushes that were overtaken. A server holds at most kWindow pushes
// of a worker.
//
// Members come and go: a newcomer joins each range, takes the highest clock that they answer, tells
// it to all of them, and begins. A worker that leaves or is lost takes back what was not yet
// applied, and never comes again under its number.
//
// A worker that waits for long asks whom the range waits for (range_missing.cpp).
//
// Members may be quiet (range_quiesce.cpp): nothing waits for one that is. When all are, all they
// have pushed is applied, and each gets the same row; then they go on at one clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/machine/range_value.h"
#include "paceline/core/server/wire/packet.h"

namespace paceline::server {

// A value, but for the shape that it reads. THREAD: one.
class RangeMachine {
 public:
  // `timer` is the number by which it asks for its timer.
  RangeMachine(const TableShape& shape, std::size_t range, std::uint32_t timer);

  machine::Actions on_packet(int from, Packet packet, machine::Time now);
  machine::Actions on_timer(machine::Time now);
  machine::Actions on_lost(int peer, machine::Time now);

  const RangeValue& value() const { return value_; }
  std::int64_t pushes() const { return pushes_; }  // taken in all
  bool has_members() const { return !senders_.empty(); }
  // The most pushes that it has held of one worker, and the most steps open at a time.
  std::size_t most_held() const { return most_held_; }
  std::size_t most_open_steps() const { return most_open_; }

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
  // The state of one worker here. Pushes are taken (accepted in order), then decided: applied, to
  // be shown, or dropped.
  struct Sender {
    std::uint64_t taken = 0, decided = 0;
    std::uint32_t dropped = 0;
    std::int64_t last_stamp = -1;
    std::map<std::uint64_t, Push> held;  // overtook others, by their numbers
    std::size_t gathered = 0;            // taken, and in an open step
    std::optional<Pull> pull;            // that waits for its row
    std::uint32_t last_pull = 0;
    bool is_owed = false;             // an answer
    std::optional<Quiet> quiet = {};  // it asked for one
    std::uint32_t last_quiet = 0;     // the number of the last that has ended
  };

  void assign(int from, const Packet& packet);
  void push(int from, Packet packet, machine::Time now);
  void pull(int from, const Packet& packet);
  void join(int from, const Packet& packet);
  void leave(int worker);
  void quiesce(int from, const Packet& packet);
  void ask(int from, const Packet& packet);
  Packet missing_for(int from) const;
  template <typename Lacks>
  Packet lacking(int from, Lack lack, const Lacks& lacks) const;
  void let_quiesce(machine::Time now);  // those that have asked, and wakes them when all are quiet
  void send_quiet(int to);

  std::string complaint(const Sender& sender, const Push& push) const;
  void offer(Push push, machine::Time now);
  void gather(std::int64_t step, Push push, machine::Time now);
  void offer_late(Push push, machine::Time now);
  void close_steps(machine::Time now);
  bool can_close(std::int64_t step, std::span<const Push> gathered) const;
  bool all_have_passed(std::int64_t step) const;
  bool has_too_few_members() const;  // for a step, with spare workers
  // The pushes of this step by workers that are quiet.
  int of_quiet(std::int64_t step, std::span<const Push> gathered) const;
  void decide(const Push& push, bool dropped = false);

  void send(int to, Packet packet);
  void fail(std::string why);
  void check_numbers();
  machine::Actions settle(machine::Time now);  // answers and rows; ends an event

  const TableShape* shape_;
  std::uint32_t range_, timer_;
  RangeValue value_;
  std::map<int, Sender> senders_;  // the members
  std::set<int> gone_;             // members that never come again
  std::set<int> wait_for_values_;
  bool has_values_ = false;
  std::map<std::int64_t, std::vector<Push>> open_;  // by step, in the order of arrival
  std::optional<std::int64_t> timed_out_;           // the step that waits for the quorum alone
  std::optional<std::string> failure_;
  std::size_t most_held_ = 0, most_open_ = 0;
  std::int64_t pushes_ = 0;
  machine::Actions actions_;  // of the present event
};

}  // namespace paceline::server
