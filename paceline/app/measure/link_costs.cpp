#include "paceline/app/measure/link_costs.h"

#include <algorithm>
#include <array>

#include "paceline/app/measure/schedule_bench.h"
#include "paceline/core/schedule/policies.h"

namespace paceline::measure {
namespace {

// So many messages of so many bytes, one behind the other: what a schedule sends, and long enough
// for what a link has saved up while it was idle not to count.
struct Stream {
  int messages;
  std::size_t bytes;
};
constexpr std::array<Stream, 5> kStreams = {
    {{64, 4 << 10}, {48, 64 << 10}, {16, 1 << 20}, {4, 8 << 20}, {1, 64 << 20}}};
constexpr int kRepeats = 3;

CostPoint cost_of(Job& job, const Stream& stream) {
  schedule::Model model{.name = "stream", .tensors = {}};
  model.tensors.resize(static_cast<std::size_t>(stream.messages), {.bytes = stream.bytes});
  ScheduleBench bench(job, model);
  // What the links take is the least; what is above it are the machine's moods.
  const auto seconds = bench.run(schedule::wait_free(model), kRepeats).seconds;
  return {static_cast<double>(stream.bytes), *std::ranges::min_element(seconds) / stream.messages};
}

}  // namespace

// Weighted by 1 / seconds, so that short messages count as much as long ones.
topology::Line line_through(std::span<const CostPoint> points) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const CostPoint& point : points) {
    const double weight = 1 / (point.seconds * point.seconds);
    w += weight;
    x += weight * point.bytes;
    y += weight * point.seconds;
    xx += weight * point.bytes * point.bytes;
    xy += weight * point.bytes * point.seconds;
  }
  const double beta = (w * xy - x * y) / (w * xx - x * x);
  const double alpha = (y - beta * x) / w;
  if (alpha >= 0) return {alpha, beta};
  return {0, xy / xx};
}

schedule::LinkCosts measured_link_costs(Job& job) {
  schedule::LinkCosts costs{.workers = job.world_size()};
  if (costs.workers == 1) return costs;
  std::vector<CostPoint> points;
  for (const Stream& stream : kStreams) points.push_back(cost_of(job, stream));
  costs.all_reduce = line_through(points);
  // Of n bytes from each, an all_gather moves half of what an all_reduce of n times as many does.
  costs.all_gather = {costs.all_reduce.alpha / 2, costs.all_reduce.beta / 2 * costs.workers};
  return costs;
}

schedule::CodecCost measured_codec_cost(Job& job, const std::string& codec) {
  constexpr std::size_t kBytes = 8 << 20;
  schedule::Model model{.name = "stream", .tensors = {{kBytes}, {kBytes}}};
  ScheduleBench bench(job, model);
  schedule::Plan plan = schedule::wait_free(model);
  for (schedule::Group& group : plan.groups) group.codec = codec;
  const auto work = bench.run(plan, kRepeats).codec_work;
  std::vector<double> seconds = {work.encode / work.bytes, work.decode / work.bytes};
  job.world().all_reduce(buffer_of(seconds), {.op = ReduceOp::max}).wait();
  return {.name = codec,
          .ratio = work.wire / work.bytes,
          .is_linear = !work.gathers,
          .encode = seconds[0],
          .decode = seconds[1],
          .extra_messages = work.exchanges / ((kRepeats + 1) * model.size()) - 1};
}

}  // namespace paceline::measure
