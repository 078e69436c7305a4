#include "paceline/app/measure/server_contestant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "paceline/app/measure/pattern.h"
#include "paceline/core/base/check.h"
#include "paceline/core/schedule/path/push_pull.h"
#include "paceline/core/server/server.h"

namespace paceline::measure {
namespace {

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
