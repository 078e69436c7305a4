// PartServers: the servers of a table's parts, as one of its workers knows them: who takes what it
// sends, who has ended, who is to be sent it again, and for whom those wait that it has asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/coordination/awaited.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/server/table/chain.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::server {

// A value. What it sends stands in take(), with what the worker has sent by it.
class PartServers {
 public:
  struct Options {
    std::string table, part;          // in texts: "table 'w'" and "range"
    machine::Time resend_after = {};  // zero: the network loses nothing
    std::uint32_t timer = 0;          // of the worker
  };
  // `shape`: of the table, which has `parts` parts.
  template <typename Shape>
  PartServers(const Shape& shape, std::size_t parts, int worker, Options options)
      : members_(shape.members),
        replicas_(shape.spec.replicas),
        worker_(worker),
        options_(std::move(options)),
        chains_(shape.chains()),
        parts_(parts) {
    for (std::size_t part = 0; part < parts; ++part) parts_[part].chain = shape.chain_of(part);
  }

  // In the order of their chain; none: the part is lost.
  const std::vector<int>& of(std::size_t part) const { return chains_[parts_[part].chain].servers; }
  // The words of a server that has left the chain since count, too: they were committed.
  bool may_tell(int from, std::size_t part) const;
  bool may_lose_messages() const { return options_.resend_after.count() > 0; }
  bool are_replicated() const { return replicas_ > 1; }

  void send(int to, machine::Message message);
  void send_to_first(std::size_t part, machine::Message message);
  machine::Actions take() { return std::exchange(actions_, {}); }

  // --- what is sent again ---

  void start(machine::Time now);  // its timer, where messages may be lost
  // A server did not take what it was sent: it has not heard of the newest chain yet, or this worker.
  void note_moved(std::size_t part, machine::Time now);
  // The timer: returns the parts that are to be sent again what has no answer; then end_timer().
  std::vector<std::size_t> begin_timer();
  void end_timer(machine::Time now);
  // The chains of the moment: returns such parts.
  std::vector<std::size_t> configure(const std::vector<Chain>& chains);
  // The worker has left all parts. Servers that come later hear of it from these.
  void tell_done(machine::Message done);

  // --- what ends the table for this worker ---

  void on_lost(int peer);
  void fail(Failure why);  // the first one counts
  const std::optional<Failure>& failure() const { return failure_; }

  // --- for whom the worker waits ---

  void begin_question() { ++question_; }
  std::uint32_t question() const { return question_; }
  // The part is asked if it owes the worker something: returns that.
  bool note_asked(std::size_t part, bool is_owed);
  // The answer: it waits for these members, which have not `done` that. An answer to an older
  // question says nothing about now.
  void note_missing(std::size_t part, std::uint64_t question, std::vector<std::int32_t> members,
                    std::string done);
  bool have_answered() const;                     // all that were asked
  bool waits_for_nobody(std::size_t part) const;  // as it has answered
  void tell_awaited(std::size_t part, coordination::Awaited& awaited) const;

 private:
  struct Missing {
    std::vector<std::int32_t> members;
    std::string done;
  };
  struct Part {
    std::size_t chain = 0;  // its number
    bool was_moved = false;
    bool is_asked = false;           // by the last question
    std::optional<Missing> missing;  // its answer
  };
  int first_of(const Part& part) const { return members_.servers[part.chain]; }  // in the beginning
  void tell_done();
  void lose(std::size_t part);

  TableMembers members_;
  int replicas_, worker_;
  Options options_;
  std::vector<Chain> chains_;
  std::vector<Part> parts_;
  std::uint32_t question_ = 0;
  std::optional<machine::Message> done_;
  std::optional<Failure> failure_;
  machine::Actions actions_;  // of the present event
};

}  // namespace paceline::server
