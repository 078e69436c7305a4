// This page shows from outside (`paceline top`) what the rank does now: a page of memory that a
// process of the same user can read through /proc/<pid>/fd, at no cost to the rank but a few
// stores.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "paceline/core/transport/memory/shared_memory.h"

namespace paceline::transport {

// The page's content; times are of the host's steady clock in nanoseconds.
struct RankStatus {
  static constexpr std::uint64_t kMagic = 0x36544154534c4350;  // "PCLSTAT6"

  std::uint64_t magic = kMagic;
  std::int32_t rank = 0, world_size = 0;
  std::uint64_t generation = 0;
  std::array<char, 64> job = {};
  std::int64_t operations = 0;  // that ended
  std::int64_t in_flight = 0;
  std::int64_t waited_ns = 0;         // by threads, for operations, in all
  std::int64_t waiting_since_ns = 0;  // 0: nobody waits now
  std::array<char, 192> waits_for = {};
  std::int64_t step = 0;  // as the program tells it (Job::report)
  double samples = 0;     // in all, of this rank
  double loss = 0;
  std::int32_t server = -1;  // its number; below 0: a rank
  // In whose memory its buffers lie, "cuda:1"; empty: in that of the host alone.
  std::array<char, 32> device = {};
  struct Serves {
    std::int64_t ranges = 0, lowest_clock = 0, highest_clock = 0;  // of tables; clocks of workers
    std::int64_t pushes = 0;           // that it has taken in all, parts of sums too
    std::int64_t rows = 0;             // of sparse tables, that it stores
    std::array<char, 96> chains = {};  // its places in them, where each range has several servers
  } serves = {};                       // a server
  struct Stages {
    std::array<char, 32> numbers = {};         // "1", "0,2"; empty: the rank has none
    std::int64_t idle_ns = 0, compute_ns = 0;  // in all: waiting for other stages, and computing
  } stages = {};                               // of a pipeline
};

// THREAD: all methods from any thread.
class StatusPage {
 public:
  static constexpr const char* kName = "paceline-status";  // of the memory, as /proc shows it

  StatusPage();  // where shared memory is refused there is no page, and nothing else is lost
  ~StatusPage();
  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;

  void join(std::string_view job, std::uint64_t generation, int rank, int world_size);
  void serve(int server);
  void has_device(std::string_view name);
  void served(const RankStatus::Serves& now);
  void operation_began();
  void operation_ended();
  void operation_passed();  // began and ended at once
  void wait_began(std::string_view operation);
  void wait_ended(std::int64_t waited_ns);
  void report(std::int64_t step, double samples, double loss);
  void report_stages(std::string_view numbers, std::int64_t idle_ns, std::int64_t compute_ns);

 private:
  template <typename Change>
  void change(Change change);

  struct Page;
  std::optional<SharedMemory> memory_;
  std::mutex mutex_;
  Page* page_;  // guarded by mutex_; in memory_, or own_ where there is none
  std::unique_ptr<Page> own_;
  int waiting_ = 0;  // threads; guarded by mutex_
};

// A copy of the page behind `path` (/proc/<pid>/fd/<n>); nothing when it is none or does not hold
// still.
std::optional<RankStatus> read_status(const char* path);

}  // namespace paceline::transport
