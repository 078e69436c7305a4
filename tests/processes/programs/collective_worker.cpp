// A worker that carries out collectives, for tests in which one rank fails and the others see it.
//
//   collective_worker [RANK=BEHAVIOUR]... BEHAVIOUR      the last is that of all other ranks
//
//   stream          joins, says "ready PID", and sums up for ever
//   stream:NAME     the same by an algorithm, as all_reduce/ring, on 10,000 floats a rank
//   ordinary:KIB    the same on so much memory of the heap; when that fails it uses the memory for
//                   something else, says "released", and a moment later "overwritten" if others
//                   have written there
//   hurried:KIB     the same, and each call must end within 0.3 s
//   before          says "ready PID" instead of joining, and waits
//   calls:COUNT     joins, sums up COUNT times, and ends
//   exit:CODE       as calls:3, then exits without leaving the job
//   throw, abort    as calls:3, then that
//   die:SIGNAL      as calls:3, then dies by SIGNAL
//   caught:COUNT    as calls:3, then throws what main catches, with COUNT operations in flight
//   told:COUNT      the same by paceline::run_main
//   forking:COUNT   as stream, in a process that has COUNT children by fork(), which live on
//   returning       as stream, in a process whose child by fork() ends its Job, or tries to
//   memory          as calls:3, then allocates more than it may have
//   different       as calls:3, then another operation than the others of `stream` do
//   hash            joins, does one of everything, and says "hash HASH"
//   uplink:MIB      joins, sums up so much by several algorithms, and says "uplink ALGORITHM right
//                   BYTES" of each: what has left its host through eth0 meanwhile
//   send:MIB        joins; rank 0 sends so much to rank 1
//   long:MIB        joins, says "ready PID", sums up so much once, and says "long right SECONDS"
//   allocate:MIB    joins, allocates and sums up so much, says "allocated", and ends
//   sums:KIB        joins, sums up so much three times in memory that it allocates, then in memory
//                   of the heap, and says "sums right"
//   exhausted:KIB   the same in memory of the heap alone, with no file left that it may open
//   closed:KIB      the same, and closes its memory to other processes after the first time
//
// A failure is told as "failed FAULT: TEXT" on stdout, and ends it with 1.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "paceline/core/collective/collective.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/job/job.h"
#include "tests/support/any_call.h"

namespace {

using paceline::Job;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

void ready() {
  say(fmt::format("ready {}", ::getpid()));
}

void sum_up(Job& job, int count) {
  std::vector<float> values(20'000, 1);
  for (int i = 0; count < 0 || i < count; ++i)
    job.world().all_reduce(paceline::buffer_of(values), {.op = paceline::ReduceOp::max}).wait();
}

void sum_up_ordinary(Job& job, std::size_t length, std::chrono::milliseconds within) {
  std::vector<float> values(length, 1);
  try {
    while (true) {
      job.world()
          .all_reduce(paceline::buffer_of(values),
                      {.op = paceline::ReduceOp::max, .within = within})
          .wait();
    }
  } catch (const paceline::Error&) {
    std::ranges::fill(values, -1.0F);
    say("released");
    ::usleep(50'000);
    if (std::ranges::any_of(values, [](float v) { return v != -1; })) say("overwritten");
    throw;
  }
}

void stream(Job& job, const std::string& name) {
  std::vector<float> in(static_cast<std::size_t>(job.world_size()) * 10'000), out(in.size());
  for (const paceline::collective::Algorithm& a : paceline::collective::built_in_algorithms()) {
    while (name == fmt::format("{}/{}", name_of(a.operation), a.name)) {
      paceline::test::call_any(job.world(), a.operation, a.name, paceline::buffer_of(in),
                               paceline::buffer_of(out))
          .wait();
    }
  }
}

std::uint64_t hash(paceline::Bytes bytes, std::uint64_t seed) {
  for (const std::byte b : bytes)
    seed = (seed ^ std::to_integer<std::uint64_t>(b)) * 1099511628211U;
  return seed;
}

// The results of operations that give each rank one, brought together on all ranks; the last
// operation runs in a group of its own.
std::vector<std::byte> of_one_rank_each(Job& job, std::span<float> values) {
  paceline::Communicator& world = job.world();
  const auto ranks = static_cast<std::size_t>(world.size());
  const int last = world.size() - 1;
  std::vector<float> mine(values.size() / ranks), all(mine.size() * ranks), turned(all.size()),
      scattered(mine.size());
  world.reduce(paceline::buffer_of(values), last).wait();
  world.broadcast(paceline::buffer_of(values), last).wait();
  world.scatter(paceline::const_buffer_of(values.first(all.size())), paceline::buffer_of(scattered))
      .wait();
  world.gather(paceline::const_buffer_of(scattered), paceline::buffer_of(all), last).wait();
  world.broadcast(paceline::buffer_of(all), last).wait();
  world.all_to_all(paceline::const_buffer_of(all), paceline::buffer_of(turned)).wait();
  const paceline::Buffer halves{std::as_writable_bytes(std::span(turned)).data(), turned.size() * 2,
                                paceline::Dtype::bf16};
  world.split(0, -world.rank())->all_reduce(halves, {.op = paceline::ReduceOp::max}).wait();
  const auto bytes = std::as_bytes(std::span(turned));
  return {bytes.begin(), bytes.end()};
}

// Bits that depend on the order of every sum.
void say_hash(Job& job) {
  std::uint64_t sum = 1469598103934665603U;
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{1000}, std::size_t{65537}, (std::size_t{3} << 18) + 1}) {
    paceline::Allocation memory = job.allocate(count * sizeof(float));
    std::vector<float> ordinary(count);
    for (const bool allocated : {false, true}) {
      const std::span<float> values =
          allocated ? std::span(reinterpret_cast<float*>(memory.data()), count) : ordinary;
      const auto refill = [&] {
        for (std::size_t i = 0; i < count; ++i) {
          values[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(job.rank() + 2)) *
                      (i % 3 == 0 ? 1e6F : 1e-3F);
        }
      };
      refill();
      job.world()
          .all_reduce(paceline::buffer_of(values),
                      {.op = paceline::ReduceOp::average, .weight = job.rank() + 1})
          .wait();
      sum = hash(std::as_bytes(values), sum);
      refill();
      job.world().all_reduce(paceline::buffer_of(values)).wait();
      job.world().broadcast(paceline::buffer_of(values), job.world_size() - 1).wait();
      sum = hash(std::as_bytes(values), sum);
      refill();
      sum = hash(of_one_rank_each(job, values), sum);
    }
  }
  say(fmt::format("hash {:016x}", sum));
}

void allocate(Job& job, int mib) {
  const std::size_t bytes = static_cast<std::size_t>(mib) << 20;
  paceline::Allocation memory = job.allocate(bytes);
  job.world().all_reduce(paceline::Buffer{memory.data(), bytes, paceline::Dtype::u8}).wait();
  say("allocated");
}

// The bytes that have left this network namespace.
long bytes_sent_through_eth0() {
  std::ifstream file("/proc/net/dev");
  for (std::string word; file >> word;) {
    if (word != "eth0:") continue;
    long number = 0;
    for (int column = 0; column < 9; ++column) file >> number;  // eight of them tell of receiving
    return number;
  }
  return -1;
}

void say_uplink(Job& job, int mib) {
  paceline::Communicator& world = job.world();
  const auto sum = static_cast<float>(world.size() * (world.size() + 1) / 2);
  for (const std::string algorithm : {"direct", "hierarchical", "automatic"}) {
    std::vector<float> values(static_cast<std::size_t>(mib) << 18,
                              static_cast<float>(world.rank() + 1));
    world.barrier().wait();
    const long before = bytes_sent_through_eth0();
    world.barrier().wait();
    world
        .all_reduce(paceline::buffer_of(values),
                    {.algorithm = algorithm == "automatic" ? std::string_view() : algorithm})
        .wait();
    world.barrier().wait();
    const long after = bytes_sent_through_eth0();
    const bool right = std::ranges::all_of(values, [&](float value) { return value == sum; });
    say(fmt::format("uplink {} {} {}", algorithm, right ? "right" : "wrong", after - before));
  }
}

void sum_up_once(Job& job, int mib) {
  std::vector<float> values(static_cast<std::size_t>(mib) << 18,
                            static_cast<float>(job.rank() + 1));
  const auto sum = static_cast<float>(job.world_size() * (job.world_size() + 1) / 2);
  job.world().barrier().wait();
  say(fmt::format("ready {}", ::getpid()));
  const auto begin = paceline::Clock::now();
  job.world().all_reduce(paceline::buffer_of(values)).wait();
  const std::chrono::duration<double> took = paceline::Clock::now() - begin;
  const bool right = std::ranges::all_of(values, [&](float value) { return value == sum; });
  say(fmt::format("long {} {:.3f}", right ? "right" : "wrong", took.count()));
}

bool sum_is_right(Job& job, std::span<float> values) {
  std::ranges::fill(values, static_cast<float>(job.rank() + 1));
  job.world().all_reduce(paceline::buffer_of(values)).wait();
  const auto sum = static_cast<float>(job.world_size() * (job.world_size() + 1) / 2);
  return std::ranges::all_of(values, [&](float value) { return value == sum; });
}

void say_sums(Job& job, const std::string& name, int kib) {
  job.world().barrier().wait();
  while (name == "exhausted" && ::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) continue;
  job.world().barrier().wait();
  std::vector<float> heap(static_cast<std::size_t>(kib) << 8);
  paceline::Allocation memory;
  if (name == "sums") memory = job.allocate(heap.size() * sizeof(float));
  const std::span<float> allocated(reinterpret_cast<float*>(memory.data()), heap.size());
  bool right = true;
  for (int time = 0; time < 6; ++time) {
    right = sum_is_right(job, name == "sums" && time < 3 ? allocated : heap) && right;
    if (name == "closed") ::prctl(PR_SET_DUMPABLE, 0);
  }
  say(right ? "sums right" : "sums wrong");
}

void send(Job& job, int mib) {
  std::vector<float> values(static_cast<std::size_t>(mib) << 18);
  if (job.rank() == 0) job.world().send(paceline::const_buffer_of(values), 1).wait();
  if (job.rank() == 1) job.world().recv(paceline::buffer_of(values), 0).wait();
}

void throw_with_operations_in_flight(Job& job, int count) {
  static std::vector<float> values(1);
  sum_up(job, 3);
  for (int i = 0; i < count; ++i) (void)job.world().recv(paceline::buffer_of(values), 0);
  paceline::throw_misuse("row 17 has no label");
}

void fork_children(int count) {
  constexpr unsigned kLiveOn = 20;
  for (int i = 0; i < count; ++i) {
    if (::fork() != 0) continue;
    ::sleep(kLiveOn);
    ::_exit(0);
  }
}

// Returns in the parent alone.
void fork_child_that_ends(Job& job) {
  if (::fork() != 0) return;
  { const Job ours = std::move(job); }
  say("child ended");
  ::_exit(0);
}

// Throws std::bad_alloc, as where the system gives no more.
void take_all_memory() {
  constexpr std::size_t kAll = std::size_t{1} << 30;
  struct rlimit limit = {};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = kAll;
  ::setrlimit(RLIMIT_AS, &limit);
  std::vector<std::vector<char>> all;
  while (true) all.emplace_back(kAll);
}

void behave(const std::string& behaviour) {
  const auto colon = behaviour.find(':');
  const auto name = behaviour.substr(0, colon);
  const int number = colon == std::string::npos ? 0 : std::atoi(behaviour.c_str() + colon + 1);
  if (name == "before") {
    ready();
    while (true) ::pause();
  }
  Job job = paceline::init();
  if (name == "stream") {
    ready();
    if (colon != std::string::npos) return stream(job, behaviour.substr(colon + 1));
    return sum_up(job, -1);
  }
  if (name == "forking" || name == "returning") {
    sum_up(job, 3);
    if (name == "forking") fork_children(number);
    else fork_child_that_ends(job);
    ready();
    return sum_up(job, -1);
  }
  if (name == "caught") return throw_with_operations_in_flight(job, number);
  if (name == "ordinary" || name == "hurried") {
    ready();
    return sum_up_ordinary(job, static_cast<std::size_t>(number) << 8,
                           std::chrono::milliseconds(name == "hurried" ? 300 : 0));
  }
  if (name == "calls") return sum_up(job, number);
  if (name == "long") return sum_up_once(job, number);
  if (name == "send") return send(job, number);
  if (name == "hash") return say_hash(job);
  if (name == "sums" || name == "exhausted" || name == "closed") return say_sums(job, name, number);
  if (name == "uplink") return say_uplink(job, number);
  if (name == "allocate") return allocate(job, number);
  sum_up(job, 3);
  if (name == "exit") std::exit(number);
  if (name == "_exit") ::_exit(number);
  if (name == "throw") throw std::runtime_error("something else went wrong");
  if (name == "abort") std::abort();
  if (name == "die") ::raise(number);
  if (name == "memory") take_all_memory();
  if (name == "different") job.world().barrier().wait();
}

}  // namespace

int main(int argc, char** argv) {
  const char* rank = nullptr;
  for (const char* name :
       {"SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK", "PACELINE_RANK"}) {
    if (const char* value = std::getenv(name)) rank = value;
  }
  const std::string mine = fmt::format("{}=", rank == nullptr ? "0" : rank);
  std::string behaviour = argc > 1 ? argv[argc - 1] : "hash";
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(mine)) behaviour = argument.substr(mine.size());
  }
  if (behaviour.starts_with("told:")) {
    const int count = std::atoi(behaviour.c_str() + 5);
    return paceline::run_main([count](Job& job) {
      throw_with_operations_in_flight(job, count);
      return 0;
    });
  }
  try {
    behave(behaviour);
  } catch (const paceline::Error& error) {
    say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
    return error.fault() == paceline::Fault::refused ? 4 : 1;
  }
  return 0;
}
