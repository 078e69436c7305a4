// TableRegister and TableDeclarer: how the workers of a job declare a table to its servers.
//
// Each worker sends what it knows of the table to each server and waits for the answer of all. A
// server compares what the workers say, opens the table when all have said the same, and then
// answers all of them. Workers that differ are refused, and told by whom and in what they differ;
// so are those that wait for one that has left. The workers number the tables: a server that came
// late does not know all that were there before.
//
// If servers may end, a worker declares a table also to those that it hears of in the chains while
// it waits. One that all workers have not heard of yet opens the table when another server
// tells it.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "paceline/core/coordination/awaited.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/server/sparse/any_table_spec.h"

namespace paceline::server {

enum class RegisterKind : std::uint32_t {
  declare = 1,     // a worker to a server: a TableSpec (wire/declaration.h) [index: its number,
                   // by which servers compare: 4 times how many tables the worker has declared]
  open,            // a server to the workers: the table is there, and its number (u32)
  refused,         // a server to the workers: why it is not, as text
  ask,             // a worker to a server that has not answered: for whom do you wait?
  missing,         // the answer: the workers that have not declared the table (i32 each)
  declare_sparse,  // as declare: a SparseTableSpec (sparse/any_table_spec.h)
  tables,          // a server that came late to the others: which tables do you have?
  table,           // the answer, and whenever one is opened: its number (u32) and TableSpec
  closed,          // and whenever one has ended: its number (u32)
  table_sparse,    // as table: its number (u32) and SparseTableSpec
};

// TableRegister is a server's side. It opens no table itself: the caller of take_agreed() does, and
// then sends the register a message from the server itself, `open`, `refused` or later `closed`, with
// its payload.
// THREAD: the on_... methods on the driver, the others on any; a mutex guards the state.
class TableRegister final : public machine::Machine {
 public:
  // The members 0 .. workers - 1 are the workers, and `own` is this server.
  TableRegister(int workers, int own) : workers_(workers), own_(own) {}

  struct Opened {
    std::uint32_t number = 0;
    AnyTableSpec spec;
  };
  // The table that all workers have declared, once.
  std::optional<Opened> take_agreed();
  bool has_agreed() const;

  // A server that came late opens the tables that others have, and hears of those that end.
  static machine::Message question();  // it hears this as from its own member, and then is late
  bool has_opened() const;
  std::optional<Opened> take_opened();
  std::optional<std::uint32_t> take_closed();
  bool all_have_left() const;  // nothing comes from any worker any more
  std::set<int> left() const;  // the workers that have left

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  machine::Actions declare(int from, const machine::Message& message);
  machine::Actions refuse(const std::string& why);
  std::optional<std::string> left_out() const;  // who has left, while others wait for a table
  machine::Actions tell_missing(int to) const;
  bool is_known(std::uint32_t number) const;  // it is here, or about to be
  std::optional<Opened> agreed() const;
  machine::Actions opened(Bytes number);
  machine::Actions closed(Bytes number);
  machine::Actions of_server(int from, const machine::Message& message);
  machine::Actions tell_late(const machine::Message& message) const;

  const int workers_, own_;
  mutable std::mutex mutex_;  // guards all that follows
  // The workers' words for the tables that are to come, by number. A late server may hear of one
  // from some workers alone.
  std::map<std::uint32_t, std::map<int, AnyTableSpec>> declared_;
  std::optional<std::string> refusal_;                // of this table and of all that would follow
  std::map<std::uint32_t, machine::Message> tables_;  // by number: what is told of those here
  std::map<std::uint32_t, AnyTableSpec> coming_;      // taken, and not opened yet
  bool is_late_ = false;                              // itself
  std::set<int> late_;                                // servers that hear of all tables
  std::set<std::uint32_t> heard_;                     // numbers of tables that others have had
  std::deque<Opened> to_open_;
  std::deque<std::uint32_t> to_close_;
  std::set<int> left_;
};

// TableDeclarer is a worker's side. THREAD: as the register's.
class TableDeclarer final : public machine::Machine {
 public:
  // The members from first_server on are the servers.
  // With `servers_may_end` others have what one of them has, and it is not waited for any more.
  TableDeclarer(int own, int first_server, int servers, bool servers_may_end = false);

  // The message that declares a table when this machine hears it as from its own member; the one
  // by which it asks the servers that have not answered for whom they wait; and the one that brings
  // the chains of the job (table/chain.h) in bytes, where servers may end.
  static machine::Message declaration(const AnyTableSpec& spec, std::uint32_t number);
  static machine::Message question();
  static constexpr std::uint32_t kChains = UINT32_MAX;
  // To be called before that message.
  void expect_answers();
  bool is_answered() const;  // by all servers, or refused by one, after which nothing is declared
  std::optional<Failure> failure() const;
  std::uint32_t number() const;  // of the table that all servers have opened
  std::size_t missing_answers() const;
  bool has_heard() const;  // the answers to the last question
  coordination::Awaited awaited() const;

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  machine::Actions from_own(const machine::Message& message);
  machine::Actions hear_chains(Bytes chains);
  void opened(int server, Bytes payload);

  const int own_, first_;
  const bool servers_may_end_;
  mutable std::mutex mutex_;       // guards all that follows
  std::set<int> servers_, ended_;  // those that it knows
  bool waits_ = false;             // for the answers to a table, which may not be declared yet
  std::optional<machine::Message> declared_;  // that is not answered yet
  std::set<int> missing_;                     // servers that have not answered
  std::optional<std::uint32_t> number_;
  std::set<int> asked_;                      // servers
  std::map<int, std::vector<int>> lacking_;  // workers, by the server that said so
  std::optional<Failure> failure_;
};

}  // namespace paceline::server
