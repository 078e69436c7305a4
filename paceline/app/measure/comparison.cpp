#include "paceline/app/measure/comparison.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "paceline/app/measure/quantile.h"
#include "paceline/app/measure/start_line.h"
#include "paceline/app/measure/yardstick.h"
#include "paceline/core/base/check.h"
#include "paceline/core/job/job.h"

namespace paceline::measure {
namespace {

constexpr int kWarmUp = 5;  // operations, to see how long one takes
constexpr int kBlock = 20, kLongestBlock = 400, kShortestBlock = 3;
constexpr double kLeastSeconds = 5e-3,
                 kMostSeconds = 1;  // a block's duration, if its length allows it

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// `seconds` is the duration of one operation, the untimed parts included.
int operations_for(double seconds) {
  const auto within = [seconds](double all) { return static_cast<int>(all / seconds); };
  if (seconds * kBlock > kMostSeconds) return std::max(kShortestBlock, within(kMostSeconds));
  if (seconds * kLongestBlock < kLeastSeconds) return kLongestBlock;
  return std::max(kBlock, within(kLeastSeconds));
}

void check_yardstick(std::span<const Candidate> candidates, const Communicator& group) {
  PACELINE_CHECK(group.size() >= 2 && group.size() <= kMostYardstickRanks,
                 "the yardstick is made for 2 to {} ranks, not for {}; leave it out",
                 kMostYardstickRanks, group.size());
  for (const Candidate& c : candidates) {
    PACELINE_CHECK(c.operation == Operation::all_reduce && c.dtype == Dtype::f32,
                   "the yardstick is an all_reduce of f32, with which {} of {} cannot be compared; "
                   "leave it out",
                   name_of(c.operation), name_of(c.dtype));
    PACELINE_CHECK(c.bytes == candidates.front().bytes,
                   "the yardstick has one length: compare length by length");
  }
}

class Race {
 public:
  Race(Job& job, Communicator& group, std::span<const Candidate> candidates,
       const CompareOptions& options)
      : group_(group),
        options_(options),
        lanes_(candidates.begin(), candidates.end()),
        memory_(own_memory(job)),
        common_(CommonMemory::create(group, common_bytes(candidates))),
        line_(group, common_ ? &*common_ : nullptr) {
    for (Lane& lane : lanes_)
      lane.contestant = options.make(group, lane.measured.candidate, memory_);
    if (options.yardstick) add_yardstick();
  }

  Comparison run() {
    for (Lane& lane : lanes_) warm_up(lane);
    for (int block = 0; block <= options_.blocks; ++block) {
      for (Lane& lane : lanes_) {
        const std::vector<double> seconds = run_block(lane, lane.operations);
        if (block == 0) continue;
        lane.measured.block_medians.push_back(median(seconds));
        lane.measured.seconds.insert(lane.measured.seconds.end(), seconds.begin(), seconds.end());
      }
      if (options_.on_block) options_.on_block(block, options_.blocks);
    }
    return result();
  }

 private:
  struct Lane {
    explicit Lane(Candidate candidate) : measured{.candidate = std::move(candidate)} {}
    std::unique_ptr<Contestant> contestant;
    Measurement measured;
    int operations = kBlock;
  };

  MutableBytes own_memory(Job& job) {
    std::size_t bytes = 0;
    for (const Lane& lane : lanes_)
      bytes = std::max(bytes, memory_of(lane.measured.candidate, group_.size()));
    if (options_.ordinary_buffers) {
      heap_.resize(bytes);
      return heap_;
    }
    allocation_ = job.allocate(std::max<std::size_t>(bytes, 1));
    return allocation_.bytes().first(bytes);
  }

  std::size_t common_bytes(std::span<const Candidate> candidates) const {
    if (!options_.yardstick) return 0;
    check_yardstick(candidates, group_);
    return yardstick_bytes(count_of(candidates.front(), group_.size()), group_.size());
  }

  void add_yardstick() {
    PACELINE_CHECK(common_.has_value(),
                   "the yardstick is for ranks that share memory: run all of them on one host, or "
                   "leave it out");
    Candidate candidate = lanes_.front().measured.candidate;
    candidate.algorithm = "yardstick";
    lanes_.emplace_back(candidate);
    lanes_.back().contestant =
        make_yardstick(group_, *common_, line_, count_of(candidate, group_.size()));
  }

  void warm_up(Lane& lane) {
    lane.contestant->clear();
    const std::uint64_t sent = group_.traffic().messages_sent;
    lane.contestant->operate();
    lane.measured.messages = static_cast<std::int64_t>(group_.traffic().messages_sent - sent);
    run_block(lane, 1);
    const auto begin = Clock::now();
    run_block(lane, kWarmUp);
    std::vector<double> each = {seconds_since(begin) / kWarmUp};
    group_.all_reduce(buffer_of(each), {.op = ReduceOp::max}).wait();
    lane.operations = options_.operations > 0 ? options_.operations : operations_for(each[0]);
  }

  // The seconds of each operation, the same on all ranks.
  std::vector<double> run_block(Lane& lane, int operations) {
    std::vector<double> seconds;
    if (options_.back_to_back) {
      seconds = one_after_the_other(lane, operations);
      group_.broadcast(buffer_of(seconds)).wait();
    } else {
      for (int i = 0; i < operations; ++i) seconds.push_back(checked(lane));
      group_.all_reduce(buffer_of(seconds), {.op = ReduceOp::max}).wait();
    }
    return seconds;
  }

  double checked(Lane& lane) {
    const int iteration = iteration_++;
    lane.contestant->fill(iteration);
    line_.wait();
    const auto begin = Clock::now();
    lane.contestant->operate();
    const double seconds = seconds_since(begin);
    line_.wait();  // no rank reads while another one is still measured
    lane.measured.errors += static_cast<std::int64_t>(lane.contestant->wrong(iteration));
    return seconds;
  }

  std::vector<double> one_after_the_other(Lane& lane, int operations) {
    checked(lane);
    lane.contestant->clear();
    line_.wait();
    std::vector<double> seconds;
    auto begin = Clock::now();
    for (int i = 0; i < operations; ++i) {
      lane.contestant->operate();
      const auto end = Clock::now();
      seconds.push_back(std::chrono::duration<double>(end - begin).count());
      begin = end;
    }
    return seconds;
  }

  Comparison result() {
    std::vector<std::int64_t> counts;
    for (const Lane& lane : lanes_) {
      counts.push_back(lane.measured.errors);
      counts.push_back(lane.measured.messages);
    }
    group_.all_reduce(buffer_of(counts)).wait();
    Comparison comparison;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].measured.errors = counts[2 * i];
      lanes_[i].measured.messages = counts[2 * i + 1];
      comparison.candidates.push_back(std::move(lanes_[i].measured));
    }
    if (options_.yardstick) {
      comparison.yardstick = std::move(comparison.candidates.back());
      comparison.candidates.pop_back();
    }
    return comparison;
  }

  Communicator& group_;
  const CompareOptions& options_;
  std::vector<Lane> lanes_;
  std::vector<std::byte> heap_;
  Allocation allocation_;
  const MutableBytes memory_;
  const std::optional<CommonMemory> common_;
  StartLine line_;
  int iteration_ = 0;
};

}  // namespace

Comparison compare(Job& job, Communicator& group, std::span<const Candidate> candidates,
                   const CompareOptions& options) {
  PACELINE_CHECK(!candidates.empty(), "there is nothing to measure: give a candidate");
  return Race(job, group, candidates, options).run();
}

std::vector<double> ratios(const Measurement& one, const Measurement& other) {
  std::vector<double> result;
  const std::size_t blocks = std::min(one.block_medians.size(), other.block_medians.size());
  for (std::size_t block = 0; block < blocks; ++block)
    result.push_back(one.block_medians[block] / other.block_medians[block]);
  return result;
}

}  // namespace paceline::measure
