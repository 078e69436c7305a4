#include "paceline/app/measure/schedule_bench.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "paceline/app/measure/processors.h"
#include "paceline/core/schedule/replay.h"

namespace paceline::measure {
namespace {

// What a rank brings, in (-1, 1): most are small and few are large, all differ, as in gradients; a
// codec takes its time from that. The mean of all ranks stays what it is when it is averaged again.
double brought(std::size_t i, int rank) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // mixes: all of the upper bits depend on it
  const std::uint64_t once = (i * 64 + static_cast<std::uint64_t>(rank) + 1) * kOdd;
  const std::uint64_t mixed = (once ^ once >> 32) * kOdd;
  const double unit = static_cast<double>(static_cast<std::int64_t>(mixed)) * 0x1p-63;
  return unit * unit * unit;
}

// Of every rank's times, step by step, the longest.
void take_the_longest(Communicator& world, std::vector<double>& seconds) {
  world.all_reduce(buffer_of(seconds), {.op = ReduceOp::max}).wait();
}

double mean_of_ranks(Communicator& world, double value) {
  std::vector<double> values = {value};
  world.all_reduce(buffer_of(values), {.op = ReduceOp::average}).wait();
  return values.front();
}

}  // namespace

ScheduleBench::ScheduleBench(Job& job, const schedule::Model& model)
    : job_(job), model_(model), memory_(job.allocate(model.bytes())) {}

std::vector<Buffer> ScheduleBench::groups_of(const schedule::Plan& plan) {
  std::vector<Buffer> groups;
  std::size_t at = 0;
  for (const schedule::Group& group : plan.groups) {
    const auto bytes = static_cast<std::size_t>(schedule::bytes_of(model_, group));
    groups.push_back({memory_.data() + at, bytes / sizeof(float), Dtype::f32});
    at += bytes;
  }
  return groups;
}

void ScheduleBench::fill() {
  const std::span values(reinterpret_cast<float*>(memory_.data()), model_.bytes() / sizeof(float));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(brought(i, job_.rank()));
}

std::int64_t ScheduleBench::errors() {
  const std::span values(reinterpret_cast<const float*>(memory_.data()),
                         model_.bytes() / sizeof(float));
  std::vector<std::int64_t> wrong(1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double sum = 0;
    for (int rank = 0; rank < job_.world_size(); ++rank) sum += brought(i, rank);
    wrong[0] += std::abs(values[i] - sum / job_.world_size()) > 1e-5 ? 1 : 0;
  }
  job_.world().all_reduce(buffer_of(wrong)).wait();
  return wrong[0];
}

ScheduleRun ScheduleBench::run(const schedule::Plan& plan, int steps,
                               const std::function<void(int step)>& on_step) {
  ScheduleRun result;
  fill();
  const TraceScope scope(job_.trace(), TraceLane::training,
                         fmt::format("{}, {}", model_.name, plan.name));
  {
    schedule::GradientPath path(job_.world(), model_, plan, groups_of(plan));
    schedule::Replay replay(model_, path, job_.trace());
    job_.world().barrier().wait();
    double worked = 0;
    for (int step = 0; step <= steps; ++step) {
      const schedule::ReplayedStep taken = replay.step();
      on_step(step);
      if (step == 0) {
        worked = worked_seconds();
        continue;
      }
      result.seconds.push_back(taken.seconds);
      result.exposed.push_back(taken.exposed);
    }
    replay.finish();
    result.worked = mean_of_ranks(job_.world(), (worked_seconds() - worked) / steps);
    result.codec_work = path.codec_work();
  }
  take_the_longest(job_.world(), result.seconds);
  take_the_longest(job_.world(), result.exposed);
  if (result.codec_work.exchanges == 0) result.errors = errors();
  return result;
}

}  // namespace paceline::measure
