// Job: this process's place in a run, as long as the process lives.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/deadline.h"
#include "paceline/core/base/result.h"
#include "paceline/core/base/trace_log.h"

namespace paceline {

class Communicator;  // paceline/core/collective/communicator.h

// Host memory that ranks on the same host can read and write directly, so that collectives on it
// need no copies; where none shares memory with this one, in huge pages if the system has them.
// Page-aligned, zeroed, committed (running out of memory is an error at `allocate`, never later).
// Move-only; must end before its Job.
class Allocation {
 public:
  Allocation();  // of nothing
  Allocation(Allocation&&) noexcept;
  Allocation& operator=(Allocation&&) noexcept;
  ~Allocation();

  MutableBytes bytes() const;
  std::byte* data() const { return bytes().data(); }
  std::size_t size() const { return bytes().size(); }

 private:
  friend class Job;
  class Impl;
  explicit Allocation(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Made by init(); ends (says goodbye to its peers, joins its thread) in the destructor.
// THREAD: every method may be called from any thread; destruction must be the last use.
class Job {
 public:
  class Impl;
  explicit Job(std::unique_ptr<Impl> impl);
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  ~Job();

  int rank() const;
  int world_size() const;
  int local_rank() const;
  int local_world_size() const;
  int node_rank() const;
  std::uint64_t generation() const;
  const std::string& id() const;

  // The group of all ranks in the present generation. Lives as long as the Job.
  Communicator& world();

  // THROWS Error (io) that names the limit and the remedy when the memory cannot be had.
  Allocation allocate(std::size_t bytes);

  // What this rank does when: enable() it to record, observe/trace_file.h to draw it.
  TraceLog& trace();
  // How far this rank's loop has come, for `paceline top`: steps done, samples that this rank
  // trained with in all, last loss.
  void report(std::int64_t step, double samples, double loss);

  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Joins the run that the environment tells of (docs/guide/first_steps.md); without one: a world of
// one rank. Returns when every rank of the generation has joined. THROWS Error: misuse (a variable
// makes no sense), refused (wrong secret), timed_out (who is missing), mismatch (the ranks' world
// sizes differ), io.
Job init();

}  // namespace paceline
