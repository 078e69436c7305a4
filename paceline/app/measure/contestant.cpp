#include "paceline/app/measure/contestant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "paceline/app/measure/pattern.h"
#include "paceline/core/base/check.h"
#include "paceline/core/collective/program/partition.h"
#include "paceline/core/job/device_memory.h"
#include "paceline/core/schedule/path/push_pull.h"
#include "paceline/core/server/server.h"

namespace paceline::measure {
namespace {

using collective::ElementRange;
using collective::Partition;

constexpr int kRoot = 0;

// The elements `found` of the buffer must be the elements from, from + 1, ... of the source's data.
struct Expected {
  ElementRange found;
  int source;
  std::size_t from;
};

std::vector<Expected> expected_of(Operation operation, const Partition& parts, int rank) {
  const ElementRange whole = {0, parts.count()};
  const auto part = [&](int r) { return parts.chunks[static_cast<std::size_t>(r)]; };
  const auto own_untouched = Expected{part(rank), rank, part(rank).offset};
  switch (operation) {
    case Operation::all_reduce: return {{whole, Pattern::kSumOfAll, 0}};
    case Operation::broadcast: return {{whole, kRoot, 0}};
    case Operation::reduce: return {{whole, rank == kRoot ? Pattern::kSumOfAll : rank, 0}};
    case Operation::reduce_scatter: return {{part(rank), Pattern::kSumOfAll, part(rank).offset}};
    case Operation::scatter: return {{part(rank), kRoot, part(rank).offset}};
    case Operation::gather:
      if (rank != kRoot) return {own_untouched};
      break;
    case Operation::all_gather:
    case Operation::all_to_all: break;
    default: return {};
  }
  std::vector<Expected> of_each;
  for (int r = 0; r < static_cast<int>(parts.chunks.size()); ++r) {
    const bool sent_to_us = operation == Operation::all_to_all;
    of_each.push_back({part(r), r, sent_to_us ? part(rank).offset : part(r).offset});
  }
  return of_each;
}

class Collective : public Contestant {
 public:
  Collective(Communicator& group, const Candidate& candidate, MutableBytes memory)
      : group_(group),
        candidate_(candidate),
        element_(size_of(candidate.dtype)),
        parts_(Partition::even(count_of(candidate, group.size()), group.size())),
        expected_(expected_of(candidate.operation, parts_, group.rank())),
        memory_(memory.first(memory_of(candidate, group.size()))),
        buffer_(memory_.first(parts_.count() * element_)),
        result_(memory_.last(buffer_.size())) {}

  void clear() override {
    if (!memory_.empty()) std::memset(memory_.data(), 0, memory_.size());
  }

  void fill(int iteration) override { pattern(iteration).fill(buffer_, group_.rank(), 0); }

  void operate() override { start().wait(); }

  std::size_t wrong(int iteration) override {
    const Pattern data = pattern(iteration);
    std::size_t count = 0;
    for (const Expected& e : expected_)
      count += data.wrong(result_.subspan(e.found.offset * element_, e.found.count * element_),
                          e.source, e.from);
    return count;
  }

 protected:
  MutableBytes memory() const { return memory_; }
  // Elements that begin `offset` bytes from the begin of the memory that the operation works on.
  virtual Buffer view(std::size_t offset, std::size_t count) const {
    return {memory_.data() + offset, count, candidate_.dtype};
  }
  Dtype dtype() const { return candidate_.dtype; }

 private:
  Pattern pattern(int iteration) const { return {candidate_.dtype, group_.size(), iteration}; }

  Buffer view(ElementRange range) const { return view(range.offset * element_, range.count); }

  Work start() {
    const std::string_view algorithm = candidate_.algorithm;
    const Buffer whole = view({0, parts_.count()});
    const Buffer own = view(parts_.chunks[static_cast<std::size_t>(group_.rank())]);
    switch (candidate_.operation) {
      case Operation::all_reduce: return group_.all_reduce(whole, {.algorithm = algorithm});
      case Operation::broadcast: return group_.broadcast(whole, kRoot, {.algorithm = algorithm});
      case Operation::reduce: return group_.reduce(whole, kRoot, {.algorithm = algorithm});
      case Operation::reduce_scatter:
        return group_.reduce_scatter(whole, own, {.algorithm = algorithm});
      case Operation::all_gather: return group_.all_gather(own, whole, {.algorithm = algorithm});
      case Operation::gather: return group_.gather(own, whole, kRoot, {.algorithm = algorithm});
      case Operation::scatter: return group_.scatter(whole, own, kRoot, {.algorithm = algorithm});
      case Operation::all_to_all:
        return group_.all_to_all(whole, view(memory_.size() - result_.size(), whole.count),
                                 {.algorithm = algorithm});
      case Operation::barrier: return group_.barrier({.algorithm = algorithm});
      default:
        throw_misuse(fmt::format("{} cannot be measured: choose a collective operation",
                                 name_of(candidate_.operation)));
    }
  }

  Communicator& group_;
  const Candidate candidate_;
  const std::size_t element_;
  const Partition parts_;
  const std::vector<Expected> expected_;
  const MutableBytes memory_, buffer_, result_;
};

class CollectiveOnDevice final : public Collective {
 public:
  CollectiveOnDevice(Job& job, int device, Communicator& group, const Candidate& candidate,
                     MutableBytes memory)
      : Collective(group, candidate, memory), on_device_(job, device, this->memory().size()) {}

  void clear() override {
    Collective::clear();
    on_device_.write(memory());
  }
  void fill(int iteration) override {
    Collective::fill(iteration);
    on_device_.write(memory());
  }
  std::size_t wrong(int iteration) override {
    on_device_.read(memory());
    return Collective::wrong(iteration);
  }

 private:
  Buffer view(std::size_t offset, std::size_t count) const override {
    return on_device_.buffer(offset, count, dtype());
  }

  job::DeviceMemory on_device_;
};

Buffer buffer_in(const Candidate& candidate, int workers, MutableBytes memory) {
  return {memory.data(), count_of(candidate, workers), candidate.dtype};
}

class PushPullContestant final : public Contestant {
 public:
  PushPullContestant(Job& job, const Candidate& candidate, MutableBytes memory)
      : job_(job), servers_(job), buffer_(buffer_in(candidate, job.world_size(), memory)) {}

  void clear() override { std::memset(buffer_.data, 0, buffer_.size_bytes()); }
  void fill(int iteration) override { pattern(iteration).fill(bytes(), job_.rank(), 0); }
  void operate() override { servers_.all_reduce(buffer_, ReduceOp::sum).wait(); }
  std::size_t wrong(int iteration) override {
    return pattern(iteration).wrong(bytes(), Pattern::kSumOfAll, 0);
  }

 private:
  Pattern pattern(int iteration) const { return {buffer_.dtype, job_.world_size(), iteration}; }
  MutableBytes bytes() const { return {buffer_.data, buffer_.size_bytes()}; }

  Job& job_;
  schedule::PushPull servers_;
  const Buffer buffer_;
};

// Elements that are not this whole number.
template <typename T>
std::size_t others_than(Buffer values, double wanted) {
  const std::span<const T> all(reinterpret_cast<const T*>(values.data), values.count);
  return static_cast<std::size_t>(
      std::ranges::count_if(all, [wanted](T value) { return value != static_cast<T>(wanted); }));
}
std::size_t others_than(Buffer values, double wanted) {
  return values.dtype == Dtype::f64 ? others_than<double>(values, wanted)
                                    : others_than<float>(values, wanted);
}

void set_all(Buffer values, double to) {
  if (values.dtype == Dtype::f64)
    std::fill_n(reinterpret_cast<double*>(values.data), values.count, to);
  else std::fill_n(reinterpret_cast<float*>(values.data), values.count, static_cast<float>(to));
}

// A table whose elements are all equal: to the number of arrays of ones that were pushed.
class TableContestant : public Contestant {
 public:
  TableContestant(Job& job, const Candidate& candidate, MutableBytes memory)
      : buffer_(buffer_in(candidate, job.world_size(), memory)),
        table_(job, {.name = fmt::format("bench/{}/{}/{}", candidate.algorithm, candidate.bytes,
                                         name_of(candidate.dtype)),
                     .elements = buffer_.count,
                     .dtype = candidate.dtype,
                     .synchrony = "asp:update=worker",
                     .rule = "add"}) {
    set_all(buffer_, 0);
    table_.assign(buffer_).wait();
  }
  void clear() override { set_all(buffer_, 1); }

 protected:
  const Buffer buffer_;
  server::Table table_;
};

class PushContestant final : public TableContestant {
 public:
  PushContestant(Job& job, const Candidate& candidate, MutableBytes memory)
      : TableContestant(job, candidate, memory), workers_(job.world_size()) {}

  void fill(int) override { set_all(buffer_, 1); }
  void operate() override {
    table_.push(buffer_).wait();
    ++pushes_;
  }
  std::size_t wrong(int) override {
    table_.pull(buffer_).wait();
    return others_than(buffer_, static_cast<double>(pushes_ * workers_));
  }

 private:
  const std::int64_t workers_;
  std::int64_t pushes_ = 0;  // of this worker
};

class PullContestant final : public TableContestant {
 public:
  using TableContestant::TableContestant;
  void fill(int) override { set_all(buffer_, 1); }
  void operate() override { table_.pull(buffer_).wait(); }
  std::size_t wrong(int) override { return others_than(buffer_, 0); }
};

}  // namespace

std::size_t count_of(const Candidate& candidate, int ranks) {
  const std::size_t count = std::max<std::size_t>(1, candidate.bytes / size_of(candidate.dtype));
  const auto parts = static_cast<std::size_t>(ranks);
  switch (candidate.operation) {
    case Operation::barrier: return 0;
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all: return std::max(parts, count / parts * parts);
    default: return count;
  }
}

double bus_factor(Operation operation, int ranks) {
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (operation) {
    case Operation::barrier: return 0;
    case Operation::all_reduce: return 2 * share;
    case Operation::broadcast:
    case Operation::reduce: return 1;
    default: return share;
  }
}

std::size_t memory_of(const Candidate& candidate, int ranks) {
  const std::size_t buffer = count_of(candidate, ranks) * size_of(candidate.dtype);
  return candidate.operation == Operation::all_to_all ? 2 * buffer : buffer;
}

std::unique_ptr<Contestant> make_contestant(Communicator& group, const Candidate& candidate,
                                            MutableBytes memory) {
  return std::make_unique<Collective>(group, candidate, memory);
}

std::unique_ptr<Contestant> make_device_contestant(Job& job, int device, Communicator& group,
                                                   const Candidate& candidate,
                                                   MutableBytes memory) {
  return std::make_unique<CollectiveOnDevice>(job, device, group, candidate, memory);
}

std::unique_ptr<Contestant> make_server_contestant(Job& job, const Candidate& candidate,
                                                   MutableBytes memory) {
  if (candidate.algorithm == "push_pull")
    return std::make_unique<PushPullContestant>(job, candidate, memory);
  if (candidate.algorithm == "push")
    return std::make_unique<PushContestant>(job, candidate, memory);
  if (candidate.algorithm == "pull")
    return std::make_unique<PullContestant>(job, candidate, memory);
  throw_misuse(fmt::format("servers have no operation {}; choose push_pull, push or pull",
                           candidate.algorithm));
}

}  // namespace paceline::measure
