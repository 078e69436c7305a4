// SparseTable: rows by ids on servers, as a worker holds them, on the links of a job.
//
//   server::SparseTable users(job, {.name = "users", .width = 16, .rule = "adagrad:per=row"});
//   users.pull(ids, buffer_of(rows)).wait();       // a row for each id, in their order
//   users.prefetch(next_ids);                      // they come while this step computes
//   users.push(ids, const_buffer_of(gradients));   // ends this worker's clock
//
// All workers make the table, with equal arguments and in the same order as their other tables. In
// a job with servers these keep it; without servers the ranks themselves do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/core/server/server_table.h"
#include "paceline/core/server/sparse/sparse_spec.h"

namespace paceline::server {

struct SparsePushOptions {
  std::optional<double> rate = {};  // instead of the rule's
  double weight = 1;                // of the gradients; at least 0
};

// A table tells this of itself.
struct SparseFigures {
  // On all servers, at this worker's last rest: rows that are stored (one past its age counts until
  // a sweep takes it off), ids whose pushes are counted, and rows that have been evicted.
  std::uint64_t rows = 0, rows_counted = 0, rows_evicted = 0;
  std::uint64_t lists = 0;        // of ids that it has sent
  std::uint64_t hashes = 0;       // sent in place of lists that a server had
  std::uint64_t unknown = 0;      // of these: that the server did not know any more
  std::uint64_t ids_saved = 0;    // that hashes stood for
  std::uint64_t rows_pulled = 0;  // of this worker, repetitions included
  std::uint64_t rows_pushed = 0;
  std::uint64_t rows_ahead = 0;  // of those pulled: that were prefetched
};

// Rows as servers store them. A value.
struct StoredRows {
  std::vector<std::int64_t> ids = {};
  std::vector<std::byte> values = {};  // the table's width of elements for each id
  // SparseTable::state_elements() for each id: the rule's, and of a table that evicts the stamp of
  // the last push, in the bits of one element (sparse/sparse_spec.h).
  std::vector<std::byte> state = {};
  std::int64_t rule_steps = 0;  // that the rule has made
};

// THREAD: every method from one thread at a time, not the driver.
class SparseTable {
 public:
  // `members`: as a Table's. Returns when all ranks of the job have called it, and the servers have
  // the table. THROWS Error: misuse (the arguments make no sense, the job has a table of this name,
  // or this is a server); mismatch (the workers differ in the table); timed_out.
  SparseTable(Job& job, const SparseTableSpec& spec,
              const std::optional<TableMembers>& members = {});
  // This worker leaves, and waits until the workers that it serves have left too.
  ~SparseTable();
  SparseTable(const SparseTable&) = delete;
  SparseTable& operator=(const SparseTable&) = delete;

  const SparseTableSpec& spec() const;
  double rate() const;  // the rule's, which a push may replace
  bool is_worker() const;
  int workers() const;
  int worker() const;  // its number among them; -1: it is none

  // --- of workers; THROWS Error (misuse) elsewhere, where a buffer does not fit, or where an id
  // has more than 48 bits ---

  // Rows that the synchrony allows this worker to read: `rows` has ids.size() times the width. It
  // is written by wait(), and must live until then. At most 8 pulls are under way.
  Answer pull(std::span<const std::int64_t> ids, Buffer rows);
  // Begins the pull of rows that are read after the next push, by the rule of the step that reads
  // them. A pull of the same ids at that clock takes what comes.
  void prefetch(std::span<const std::int64_t> ids);
  // A gradient for each id, in their order: those of an id that occurs several times are summed.
  // They are copied before the call returns, which waits while 8 pushes are unanswered, or until
  // the slowest worker is near enough. Answered once it is applied, or sure to be.
  Answer push(std::span<const std::int64_t> ids, ConstBuffer gradients,
              const SparsePushOptions& options = {});
  // Pushes nothing until all workers call it: nobody waits for one that has. Answered when all
  // have, with all pushes in the rows. All go on at one clock.
  Answer quiesce();

  // The rows that servers store, cut into `parts` parts of nearly equal size, and of these number
  // `part`: for one that saves them, or a part of them. Blocks. REQUIRES: all workers have come to
  // quiesce() and do not push until it has returned. COST: it holds its part in memory.
  StoredRows stored(int part, int parts);
  // Puts such rows on the servers, over those with these ids; on any number of servers. Blocks.
  // REQUIRES: as stored(), or nobody has pushed yet; each row is stored by one worker.
  void store(const StoredRows& rows);
  std::size_t state_elements() const;  // of the rule, and of the stamp, for each row

  std::int64_t clock() const;  // of this worker
  SparseFigures figures() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace paceline::server
