#include "paceline/core/schedule/replay/trial.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "paceline/core/schedule/replay/replay.h"

namespace paceline::schedule {
namespace {

// A rank's input, in (-1, 1): most values are small and few are large, and all differ, as in
// gradients, because a codec's time depends on that. The mean of all ranks keeps its value when it
// is averaged again.
double brought(std::size_t i, int rank) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // mixes: all of the upper bits depend on it
  const std::uint64_t once = (i * 64 + static_cast<std::uint64_t>(rank) + 1) * kOdd;
  const std::uint64_t mixed = (once ^ once >> 32) * kOdd;
  const double unit = static_cast<double>(static_cast<std::int64_t>(mixed)) * 0x1p-63;
  return unit * unit * unit;
}

// Replaces each step's time by the longest of all ranks.
void take_the_longest(Communicator& world, std::vector<double>& seconds) {
  world.all_reduce(buffer_of(seconds), {.op = ReduceOp::max}).wait();
}

double mean_of_ranks(Communicator& world, double value) {
  std::vector<double> values = {value};
  world.all_reduce(buffer_of(values), {.op = ReduceOp::average}).wait();
  return values.front();
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

Trial::Trial(Communicator& group, const Model& model, TraceLog* trace, ComputeKernel* kernel,
             Job* with_servers)
    : group_(group),
      trace_(trace == nullptr ? own_trace_ : *trace),
      model_(model),
      kernel_(kernel),
      with_servers_(with_servers),
      memory_(group.allocate(model.bytes())) {}

std::vector<Buffer> Trial::groups_of(const MessagePlan& plan) {
  std::vector<Buffer> groups;
  std::size_t at = 0;
  for (const MessageGroup& group : plan.groups) {
    const auto bytes = static_cast<std::size_t>(bytes_of(model_, group));
    groups.push_back({memory_.bytes().data() + at, bytes / sizeof(float), Dtype::f32});
    at += bytes;
  }
  return groups;
}

void Trial::fill() {
  const std::span values(reinterpret_cast<float*>(memory_.bytes().data()),
                         model_.bytes() / sizeof(float));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(brought(i, group_.rank()));
}

std::int64_t Trial::errors() {
  const std::span values(reinterpret_cast<const float*>(memory_.bytes().data()),
                         model_.bytes() / sizeof(float));
  std::vector<std::int64_t> wrong(1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double sum = 0;
    for (int rank = 0; rank < group_.size(); ++rank) sum += brought(i, rank);
    wrong[0] += std::abs(values[i] - sum / group_.size()) > 1e-5 ? 1 : 0;
  }
  group_.all_reduce(buffer_of(wrong)).wait();
  return wrong[0];
}

TrialRun Trial::run(const MessagePlan& plan, int steps,
                    const std::function<void(int step)>& on_step) {
  TrialRun result;
  fill();
  const TraceScope scope(trace_, TraceLane::training,
                         fmt::format("{}, {}", model_.name, plan.name));
  {
    GradientPath path(with_servers_ == nullptr ? transport_in_lanes(group_)
                                               : transport_on_servers(*with_servers_, group_),
                      model_, plan, groups_of(plan));
    Replay replay(model_, path, trace_, kernel_);
    group_.barrier().wait();
    double worked = 0;
    for (int step = 0; step <= steps; ++step) {
      const ReplayedStep taken = replay.step();
      on_step(step);
      if (step == 0) {
        worked = worked_seconds();
        continue;
      }
      result.seconds.push_back(taken.seconds);
      result.exposed.push_back(taken.exposed);
    }
    replay.finish();
    result.worked = mean_of_ranks(group_, (worked_seconds() - worked) / steps);
    result.codec_work = path.codec_work();
  }
  take_the_longest(group_, result.seconds);
  take_the_longest(group_, result.exposed);
  if (result.codec_work.exchanges == 0) result.errors = errors();
  return result;
}

double processors_of_each(const Communicator& group) {
  double least = std::numeric_limits<double>::infinity();
  for (const ProcessorPool& pool : group.topology().pools)
    least = std::min(least, pool.processors / static_cast<double>(pool.ranks.size()));
  return least;
}

double worked_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

}  // namespace paceline::schedule
