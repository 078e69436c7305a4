// Table: a table on servers, as a worker holds it, on the links of a job.
//
//   server::Table table(job, {.name = "w", .elements = n, .synchrony = "ssp:staleness=3"});
//   table.assign(buffer_of(values)).wait();  // all workers call it; the first one's count
//   table.pull(buffer_of(values)).wait();    // values that the synchrony allows
//   table.push(buffer_of(gradient), {.rate = 0.1}).wait();  // ends this worker's clock
//
// All workers make the table, with equal arguments and in the same order as their other tables. In
// a job with servers (`paceline run --servers`, serve.h) these keep it. Without servers the ranks
// themselves do, and their work as servers is done on the driver of the job's reactor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "paceline/core/job/job.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::server {

// A call that is under way. It keeps the table's parts alive. A value.
class Answer {
 public:
  explicit Answer(std::function<void()> wait) : wait_(std::move(wait)) {}
  // Blocks until the call is answered. THROWS Error: peer_lost (a server, or what has ended the
  // generation), mismatch (a server refused it), timed_out (the job's operation timeout, which ends
  // the generation; it names those that were waited for).
  void wait() { wait_(); }

 private:
  std::function<void()> wait_;
};

// A table tells this of itself, by its first range.
struct TableFigures {
  std::uint64_t version = 0;  // steps by which the values were made that this worker read last
  std::uint64_t used = 0;     // updates of this worker in them
  std::uint64_t dropped = 0;  // pushes of this worker that came too late for their step
  double weight = 0;          // of all workers: in the last step, or as each said last
  // The updates of this worker by the number of versions that it had not read when they were used;
  // their sum is `used`.
  std::map<std::uint64_t, std::uint64_t> staleness = {};
};

struct PushOptions {
  std::optional<double> rate = {};              // instead of the rule's
  double weight = 1;                            // of the update; at least 0
  std::map<std::string, double> settings = {};  // instead of the rule's, by name
};

// THREAD: every method from one thread at a time, not the driver.
class Table {
 public:
  // `members`: ranks that work and ranks that serve, in place of the job's servers; without either
  // all ranks do both. Returns when all ranks of the job have called it, and the servers have the
  // table. THROWS Error: misuse (the arguments make no sense, more than the memory that is
  // available, the job has a table of this name, or this is a server); mismatch (the workers differ
  // in a table for the servers, both are named; one has left; or a server has no room); timed_out.
  Table(Job& job, const TableSpec& spec, const std::optional<TableMembers>& members = {});
  // This worker leaves, and waits until the workers of the ranges that it serves have left too.
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  bool is_worker() const;

  // --- of workers; THROWS Error (misuse) elsewhere, or where a buffer does not fit the table ---

  // First values, and with them the state of the rule: each worker calls it once, before all else.
  // The answer comes when they are there.
  Answer assign(ConstBuffer values, const RuleState& state = {});
  // An update, for which this worker has pulled values. It is copied before the call returns, which
  // waits while 8 pushes are unanswered. Answered once it is applied, or sure to be.
  Answer push(ConstBuffer update, const PushOptions& options = {});
  // Values that the synchrony allows this worker to read. `values` is written by wait(), and must
  // live until then.
  Answer pull(Buffer values);

  // Pushes nothing until all workers call it, at whatever clocks they are: nobody waits for one
  // that has. Answered when all have: with the values after all pushes, which are the same for all
  // workers, as pull() does. All go on at the same clock.
  Answer quiesce(Buffer values);
  // The state of the rule as the last quiesce() found it. REQUIRES: its answer has come; it is
  // taken once.
  RuleState take_rule_state();

  std::int64_t clock() const;     // of this worker
  std::uint64_t dropped() const;  // of its pushes, that came too late for their step
  TableFigures figures() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace paceline::server
