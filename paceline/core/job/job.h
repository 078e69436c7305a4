// The door of job: this process's place in a run, as long as the process lives.
//
// init() joins the run that the environment describes (joining.h) and gives a Job, which hands out
// the group of all ranks and memory that they share. A world of threads in one process, for tests
// and simulations, is made by local_world.h. Groups for the plugins of engines, which know their
// library's own names for groups, are made by engine_group.h; job_links.h gives the links to rooms
// whose machines run beside the groups, job_extension.h keeps for them what lives as long as the
// job, server_words.h is what replicated servers and the launcher say to each other,
// registered_memory.h lets a device know memory, device_memory.h is memory of a device, and
// use_devices.h tells which devices there are. job_impl.h is for this room and tests alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "paceline/core/base/trace_log.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/membership/generation/allocation.h"

namespace paceline {

// Members of a job are workers, which have ranks, and servers, which keep tables for them
// (docs/guide/server.md).
enum class Role : std::uint8_t { worker, server };

// Made by init(); ends (says goodbye to its peers, joins its thread) in the destructor.
// THREAD: every method may be called from any thread; destruction must be the last use.
class Job {
 public:
  class Impl;
  explicit Job(std::unique_ptr<Impl> impl);
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  ~Job();

  Role role() const;
  int rank() const;        // -1 in a server: it has none
  int world_size() const;  // the number of workers
  int servers() const;     // the number of servers beside them
  int local_rank() const;
  int local_world_size() const;
  int node_rank() const;
  std::uint64_t generation() const;
  const std::string& id() const;

  // The group of all ranks in the present generation. Lives as long as the Job. THROWS Error
  // (misuse) in a server.
  Communicator& world();

  // THROWS Error (io) that names the limit and the remedy when the memory cannot be had.
  Allocation allocate(std::size_t bytes);

  // The trace of this rank's work: enable() it to record, observe/trace_file.h to draw it.
  TraceLog& trace();
  // Reports the progress of this rank's loop, for `paceline top`: steps done, samples that this
  // rank trained with in all, last loss.
  void report(std::int64_t step, double samples, double loss);
  // Reports which stages of a pipeline this rank has ("1", "0,2"), and how long it has in all
  // waited for other stages and computed, for `paceline top`. A Pipeline does so after each step.
  void report_stages(std::string_view numbers, std::chrono::nanoseconds idle,
                     std::chrono::nanoseconds compute);

  // Tells the launcher that the checkpoint of this step is committed: that is progress, by which
  // `paceline run --max-restarts` counts.
  void report_saved(std::uint64_t step);

  // The transport between the ranks: "shm", "tcp", "ucx", "mpi", "shm+tcp" (within hosts, and
  // between them). `by_programs`: the transport of programs, if an engine carries the rest.
  std::string transport(bool by_programs = false) const;
  // The file into which rank 0 shall record the model that the run trains (`paceline profile`);
  // empty: none.
  const std::string& record_file() const;

  Impl& impl() { return *impl_; }  // for this room and for tests

 private:
  std::unique_ptr<Impl> impl_;
};

// Joins the run that the environment tells of (docs/guide/first_steps.md); without one: a world of
// one rank. Its stdout is line-buffered from here on, unless the program has given it a buffer of
// its own. Returns when every rank of the generation has joined. THROWS Error: misuse (a variable
// makes no sense), refused (wrong secret), timed_out (who is missing), mismatch (the ranks' world
// sizes differ), io.
Job init();

// The main function of a rank, whose end by an exception all other ranks hear of with its text.
//
//   int main() {
//     return paceline::run_main([](paceline::Job& job) { return train(job); });
//   }
//
// Joins by init(), runs `main_of_job` and returns what it returns. An exception is told on stderr
// and to all other ranks, while the Job still lives, and the code is 2 for a misuse, else 1.
int run_main(const std::function<int(Job&)>& main_of_job);

}  // namespace paceline
