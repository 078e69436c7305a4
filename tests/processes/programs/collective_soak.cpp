// One rank of a job that calls collectives at random: legal ones, of every operation, element type,
// reduction and algorithm, of 0 bytes to 256 KiB, on groups that come and go, from three threads.
//
//   collective_soak CALLS SEED
//
// After the first tenth of the calls, and at the end, it says "kept RESIDENT HEAP DESCRIPTORS": the
// process's resident bytes, the heap's bytes in use, and its open descriptors. What goes wrong is
// told as "failed TEXT", and ends it with 1.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "paceline/core/base/seed.h"
#include "paceline/core/collective/collective.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/collective/program/contract.h"
#include "paceline/core/collective/program/partition.h"
#include "paceline/core/job/job.h"
#include "tests/support/arena.h"
#include "tests/support/numbers.h"

namespace {

using namespace paceline;
using collective::ElementRange;
using collective::Partition;
using test::MixedPrecision;

constexpr int kThreads = 3, kGroups = 5;
constexpr long kPhases = 10, kLongestPhase = 20'000;  // calls; after a phase come other groups
constexpr int kMostInFlight = 4;                      // of one thread
constexpr std::size_t kLongest = 256 << 10;

constexpr Dtype kDtypes[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i64,
                             Dtype::i32, Dtype::i16, Dtype::i8,  Dtype::u8,   Dtype::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum,     ReduceOp::average, ReduceOp::min, ReduceOp::max,
                             ReduceOp::product, ReduceOp::band,    ReduceOp::bor, ReduceOp::bxor};
constexpr Operation kOperations[] = {
    Operation::all_reduce, Operation::all_reduce, Operation::reduce_scatter,
    Operation::all_gather, Operation::broadcast,  Operation::reduce,
    Operation::gather,     Operation::scatter,    Operation::all_to_all,
    Operation::barrier,    Operation::send};

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

// One operation, as every member of the group draws it from the same numbers.
struct Draw {
  Draw(Communicator& group, SeededNumbers& numbers)
      : operation(kOperations[numbers.below(std::size(kOperations))]),
        dtype(kDtypes[numbers.below(std::size(kDtypes))]),
        root(static_cast<int>(numbers.below(static_cast<std::uint64_t>(group.size())))),
        tag(static_cast<std::uint32_t>(numbers.below(4))),
        even(numbers.below(4) != 0) {
    do op = kOps[numbers.below(std::size(kOps))];
    while (!can_reduce(op, dtype));
    // Lengths are spread evenly over powers of two: as many between 1 and 2 bytes as between 128
    // and 256 KiB.
    const double bytes = std::exp2(numbers.unit() * std::log2(static_cast<double>(kLongest)));
    count = numbers.below(20) == 0 ? 0 : static_cast<std::size_t>(bytes) / size_of(dtype);
    const auto names = collective::has_programs(operation) ? group.algorithms(operation, dtype, op)
                                                           : std::vector<std::string_view>();
    const auto way = numbers.below(2 * names.size() + 1);
    if (way < names.size()) algorithm = names[way];
    const auto cuts = Partition::even(count, group.size()).chunks;
    for (const ElementRange& part : cuts) counts.push_back(part.count);
    if (even) return;
    for (std::size_t i = 0; i + 1 < counts.size(); ++i) {
      const std::size_t moved = numbers.below(counts[i] + 1);
      counts[i] -= moved;
      counts[i + 1] += moved;
    }
  }

  Counts told() const { return even ? Counts() : Counts(counts); }  // where they may be left out

  Operation operation;
  Dtype dtype;
  ReduceOp op = ReduceOp::sum;
  int root;
  std::uint32_t tag;
  bool even;
  std::size_t count = 0;
  std::vector<std::size_t> counts;  // of the parts
  std::string_view algorithm;
};

// One call of this rank: its Work, and its expected results.
class Call {
 public:
  Call(Communicator& group, const Draw& draw, test::Arena& arena, SeededNumbers& own)
      : group_(group),
        draw_(draw),
        arena_(arena),
        own_(own),
        in_place_(own.below(2) == 0),
        parts_(Partition::of(draw.counts).chunks) {
    start();
  }

  void check() const {
    for (const Work& work : works_) work.wait();
    for (const Wanted& wanted : wanted_) {
      if (wanted.row.first_difference(wanted.buffer, wanted.first) == wanted.buffer.count) continue;
      throw std::runtime_error(fmt::format(
          "wrong result: {} {} of {}[{}] by '{}', root {}, rank {} of {} in group '{}'",
          name_of(draw_.operation), name_of(draw_.op), name_of(draw_.dtype), draw_.count,
          draw_.algorithm, draw_.root, group_.rank(), group_.size(), group_.name()));
    }
  }

 private:
  struct Wanted {
    Buffer buffer;
    MixedPrecision row;
    std::size_t first;
  };

  Buffer take(std::size_t count) {
    const auto bytes = arena_.take<std::byte>(count * size_of(draw_.dtype), own_.below(2) == 0);
    return {bytes.data(), count, draw_.dtype};
  }
  Buffer filled(std::size_t count, std::size_t first = 0) {
    const Buffer buffer = take(count);
    of(group_.rank()).fill(buffer, first);
    return buffer;
  }
  MixedPrecision of(int rank) const { return MixedPrecision::of(draw_.dtype, rank); }
  Buffer part(Buffer whole, const ElementRange& range) const {
    return {whole.data + range.offset * size_of(draw_.dtype), range.count, draw_.dtype};
  }
  ElementRange part_of(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }
  void expect(Buffer buffer, MixedPrecision row, std::size_t first = 0) {
    wanted_.push_back({buffer, std::move(row), first});
  }

  void start() {
    switch (draw_.operation) {
      case Operation::all_reduce: return all_reduce();
      case Operation::reduce: return reduce();
      case Operation::reduce_scatter: return reduce_scatter();
      case Operation::all_gather:
      case Operation::gather: return gather();
      case Operation::scatter: return scatter();
      case Operation::broadcast: return broadcast();
      case Operation::all_to_all: return all_to_all();
      case Operation::send: return pass_on();
      default: works_.push_back(group_.barrier());
    }
  }

  MixedPrecision reduced() const {
    return MixedPrecision::reduced(draw_.dtype, draw_.op, group_.size());
  }

  void all_reduce() {
    const Buffer in = filled(draw_.count), out = in_place_ ? in : take(draw_.count);
    works_.push_back(group_.all_reduce(in, out, {.op = draw_.op, .algorithm = draw_.algorithm}));
    expect(out, reduced());
  }
  void reduce() {
    const Buffer in = filled(draw_.count), out = in_place_ ? in : take(draw_.count);
    works_.push_back(
        group_.reduce(in, out, draw_.root, {.op = draw_.op, .algorithm = draw_.algorithm}));
    if (group_.rank() == draw_.root) expect(out, reduced());
    else expect(in, of(group_.rank()));
  }
  void reduce_scatter() {
    const ElementRange mine = part_of(group_.rank());
    const Buffer in = filled(draw_.count), out = in_place_ ? part(in, mine) : take(mine.count);
    works_.push_back(group_.reduce_scatter(
        in, out, {.op = draw_.op, .counts = draw_.told(), .algorithm = draw_.algorithm}));
    expect(out, reduced(), mine.offset);
  }
  void gather() {
    const bool to_one = draw_.operation == Operation::gather;
    const bool takes = !to_one || group_.rank() == draw_.root;
    const ElementRange mine = part_of(group_.rank());
    const Buffer out = takes ? take(draw_.count) : Buffer{nullptr, 0, draw_.dtype};
    const Buffer in = takes && in_place_ ? part(out, mine) : take(mine.count);
    of(group_.rank()).fill(in, mine.offset);
    works_.push_back(to_one ? group_.gather(in, out, draw_.root,
                                            {.counts = draw_.counts, .algorithm = draw_.algorithm})
                            : group_.all_gather(
                                  in, out, {.counts = draw_.told(), .algorithm = draw_.algorithm}));
    for (int rank = 0; takes && rank < group_.size(); ++rank)
      expect(part(out, part_of(rank)), of(rank), part_of(rank).offset);
  }
  void scatter() {
    const bool gives = group_.rank() == draw_.root;
    const ElementRange mine = part_of(group_.rank());
    const Buffer in = gives ? filled(draw_.count) : Buffer{nullptr, 0, draw_.dtype};
    const Buffer out = gives && in_place_ ? part(in, mine) : take(mine.count);
    works_.push_back(group_.scatter(in, out, draw_.root,
                                    {.counts = draw_.counts, .algorithm = draw_.algorithm}));
    expect(out, of(draw_.root), mine.offset);
  }
  void broadcast() {
    const Buffer inout = filled(draw_.count);
    works_.push_back(group_.broadcast(inout, draw_.root, {.algorithm = draw_.algorithm}));
    expect(inout, of(draw_.root));
  }
  // Ranks a and b send each other the count of part a + b, modulo the number of parts.
  void all_to_all() {
    const auto between = [&](int a, int b) {
      return draw_.counts[static_cast<std::size_t>(a + b) % draw_.counts.size()];
    };
    std::vector<std::size_t> counts;
    for (int rank = 0; rank < group_.size(); ++rank) counts.push_back(between(group_.rank(), rank));
    const Buffer in = filled(draw_.count), out = in_place_ ? in : take(draw_.count);
    const auto catalogue = collective::built_in_algorithms();
    const auto* way = collective::find(catalogue, Operation::all_to_all, draw_.algorithm);
    const bool takes_counts = way == nullptr || !way->needs_equal_counts;
    works_.push_back(group_.all_to_all(in, counts, out, counts,
                                       {.algorithm = takes_counts ? draw_.algorithm : ""}));
    const auto taken = Partition::of(counts).chunks;
    for (int from = 0; from < group_.size(); ++from) {
      std::size_t first = 0;
      for (int rank = 0; rank < group_.rank(); ++rank) first += between(from, rank);
      expect(part(out, taken[static_cast<std::size_t>(from)]), of(from), first);
    }
  }
  // Sends to the next rank, and takes from the one before.
  void pass_on() {
    const int size = group_.size(), rank = group_.rank(), from = (rank + size - 1) % size;
    const Buffer in = filled(draw_.count), out = take(draw_.count);
    works_.push_back(group_.send(in, (rank + 1) % size, {.tag = draw_.tag}));
    works_.push_back(group_.recv(out, own_.below(2) == 0 ? from : kAnyRank, {.tag = draw_.tag}));
    expect(out, of(from));
  }

  Communicator& group_;
  const Draw draw_;
  test::Arena& arena_;
  SeededNumbers& own_;
  const bool in_place_;
  const std::vector<ElementRange> parts_;
  std::vector<Work> works_;
  std::vector<Wanted> wanted_;
};

// The loop of one thread of this rank; the same thread of every other rank does the same.
class Caller {
 public:
  Caller(Job& job, int number)
      : number_(number),
        own_(static_cast<std::uint64_t>(job.rank() * kThreads + number)),
        arena_(job, 3 * kMostInFlight * (kLongest + 256)),
        parent_(job.world().split(0)) {}

  void run(std::uint64_t seed, long calls) {
    SeededNumbers common(mix(seed, static_cast<std::uint64_t>(number_)));
    const auto groups = random_groups(common);
    while (calls > 0) {
      const auto together =
          std::min<long>(calls, 1 + static_cast<long>(common.below(kMostInFlight)));
      calls -= together;
      start_and_check(groups, together, common);
    }
  }

 private:
  // The first of all ranks; of the others, which overlap, this rank's: nullptr where it is in none.
  std::vector<std::unique_ptr<Communicator>> random_groups(SeededNumbers& common) {
    std::vector<std::unique_ptr<Communicator>> groups;
    groups.push_back(parent_->split(0));
    while (groups.size() < kGroups) {
      std::vector<std::pair<int, int>> colors_and_keys;
      for (int rank = 0; rank < parent_->size(); ++rank)
        colors_and_keys.emplace_back(static_cast<int>(common.below(4)) - 1, common.below(9));
      const auto [color, key] = colors_and_keys[static_cast<std::size_t>(parent_->rank())];
      groups.push_back(parent_->split(color, key));
    }
    return groups;
  }

  void start_and_check(const std::vector<std::unique_ptr<Communicator>>& groups, long together,
                       SeededNumbers& common) {
    std::vector<std::unique_ptr<Call>> calls;
    for (long i = 0; i < together; ++i) {
      const auto& group = groups[common.below(kGroups)];
      SeededNumbers numbers(common.next());
      if (group)
        calls.push_back(std::make_unique<Call>(*group, Draw(*group, numbers), arena_, own_));
    }
    for (; !calls.empty(); calls.pop_back()) {
      std::swap(calls[own_.below(calls.size())], calls.back());
      calls.back()->check();
    }
    if (!arena_.guards_intact()) throw std::runtime_error("something wrote beside its buffers");
    arena_.reset();
  }

  const int number_;
  SeededNumbers own_;
  test::Arena arena_;
  const std::unique_ptr<Communicator> parent_;
};

// The memory and descriptors that this rank holds, once every rank has come here and earlier frames
// have arrived: a broadcast, unlike a short all_reduce, ends by frames from every rank.
std::string kept(Job& job) {
  std::byte nothing = {};
  job.world().broadcast({&nothing, 1, Dtype::u8}).wait();
  std::ifstream statm("/proc/self/statm");
  long size = 0, resident = 0;
  statm >> size >> resident;
  const struct mallinfo2 heap = ::mallinfo2();
  const auto descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                         std::filesystem::directory_iterator());
  job.world().barrier().wait();
  return fmt::format("kept {} {} {}", resident * ::sysconf(_SC_PAGESIZE),
                     heap.uordblks + heap.hblkhd, descriptors);
}

void run_phase(std::vector<std::unique_ptr<Caller>>& callers, std::uint64_t seed, long calls) {
  {
    std::vector<std::jthread> threads;
    for (const auto& caller : callers) {
      threads.emplace_back([&caller, seed, calls] {
        try {
          caller->run(seed, calls / kThreads);
        } catch (const std::exception& error) {
          say(fmt::format("failed {}", error.what()));
          ::_exit(1);
        }
      });
    }
  }
}

void soak(long calls, std::uint64_t seed) {
  Job job = init();
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < kThreads; ++i) callers.push_back(std::make_unique<Caller>(job, i));
  const long phases = std::max(kPhases, calls / kLongestPhase);
  for (long phase = 1; phase <= phases; ++phase) {
    run_phase(callers, mix(seed, static_cast<std::uint64_t>(phase)), calls / phases);
    if (phase == phases / kPhases || phase == phases) say(kept(job));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    soak(argc > 1 ? std::atol(argv[1]) : 1000, argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  } catch (const std::exception& error) {
    say(fmt::format("failed {}", error.what()));
    return 1;
  }
  return 0;
}
