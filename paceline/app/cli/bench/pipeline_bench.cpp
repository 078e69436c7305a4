#include "paceline/app/cli/bench/pipeline_bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/bench/schedule_report.h"
#include "paceline/core/base/deadline.h"

namespace paceline::cli {
namespace {

// A sleeping thread wakes that late, sometimes, and one that has yielded may; the rest it spins.
constexpr std::chrono::microseconds kLateness{150}, kLastBit{30};

void sleep_nearly_until(Clock::time_point end) {
  if (end - Clock::now() > kLateness) std::this_thread::sleep_until(end - kLateness);
}
void spin_until(Clock::time_point end) {
  while (Clock::now() < end - kLastBit) std::this_thread::yield();
  while (Clock::now() < end) {
  }
}

// The values of a message, so that a wrong one is noticed.
float mark_of(const pipeline::Operation& operation) {
  const int kind = operation.kind == pipeline::Kind::forward ? 1 : 2;
  return static_cast<float>(operation.micro_batch % 1000 * 4096 + operation.stage * 4 + kind);
}

std::span<float> floats_of(const Allocation& memory) {
  return {reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float)};
}

}  // namespace

WaitingStages::WaitingStages(const Communicator& group, const pipeline::Order& order,
                             const pipeline::PipelineCosts& costs)
    : group_(group), order_(order), costs_(costs) {}

std::span<float> WaitingStages::take(std::map<pipeline::Transfer, Allocation>& to,
                                     const pipeline::Transfer& transfer) {
  const auto bytes = static_cast<std::size_t>(costs_.cut_bytes.front());
  const std::size_t floats = std::max<std::size_t>(1, bytes / sizeof(float));
  if (free_.empty()) free_.push_back(group_.allocate(floats * sizeof(float)));
  Allocation& memory = to[transfer] = std::move(free_.back());
  free_.pop_back();
  return floats_of(memory);
}

std::vector<Buffer> WaitingStages::room(const pipeline::Transfer& transfer) {
  return {buffer_of(take(received_, transfer))};
}

std::vector<ConstBuffer> WaitingStages::message(const pipeline::Transfer& transfer) {
  return {buffer_of(floats_of(sending_.at(transfer)))};
}

void WaitingStages::sent(const pipeline::Transfer& transfer) {
  free_.push_back(std::move(sending_.extract(transfer).mapped()));
}

void WaitingStages::check(const pipeline::Operation& operation) {
  const auto transfer = pipeline::transfer_before(order_.placement(), operation);
  if (!transfer) return;
  auto message = received_.extract(*transfer);
  const auto values = floats_of(message.mapped());
  const float mark = mark_of(operation);
  for (const std::size_t at : {std::size_t{0}, values.size() / 2, values.size() - 1})
    if (values[at] != mark) ++errors_;
  free_.push_back(std::move(message.mapped()));
}

// Writing the result is the end of the computation, and a part of its time.
void WaitingStages::compute(const pipeline::Operation& operation) {
  const auto begin = Clock::now();
  const pipeline::StageSeconds& stage = costs_.stages[static_cast<std::size_t>(operation.stage)];
  double seconds = stage.forward;
  if (operation.kind == pipeline::Kind::weight) seconds = stage.weight;
  if (operation.kind == pipeline::Kind::backward)
    seconds = order_.split_backward ? stage.backward : stage.backward + stage.weight;
  const auto end =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  sleep_nearly_until(end);
  check(operation);
  if (const auto result = pipeline::transfer_after(order_.placement(), operation))
    std::ranges::fill(take(sending_, *result), mark_of(result->operation()));
  spin_until(end);
}

const pipeline::TimedOrder& PipelineMeasurement::median() const {
  std::vector<const pipeline::TimedOrder*> sorted;
  for (const pipeline::TimedOrder& step : steps) sorted.push_back(&step);
  std::ranges::sort(sorted, {}, [](const pipeline::TimedOrder* step) { return step->makespan; });
  return *sorted[(sorted.size() - 1) / 2];
}

std::string pipeline_bench_text(const PipelineCase& one, const PipelineMeasurement& measured) {
  const pipeline::TimedOrder& step = measured.median();
  const pipeline::TimedOrder& simulated = measured.simulated;
  std::string text = fmt::format("{:<18}{:>14}{:>14}{:>12}\n", "", "measured", "simulated", "more");
  text += fmt::format("{:<18}{:>14}{:>14}{:>12}\n", "makespan",
                      fmt::format("{:.2f} ms", step.makespan * kMilli),
                      fmt::format("{:.2f} ms", simulated.makespan * kMilli),
                      fmt::format("{:+.1f} %", (step.makespan / simulated.makespan - 1) * 100));
  text +=
      fmt::format("{:<18}{:>14}{:>14}\n", "idle", fmt::format("{:.2f} %", step.idle_share * 100),
                  fmt::format("{:.2f} %", simulated.idle_share * 100));
  text += fmt::format("live activations: {}\n", fmt::join(pipeline::peak_live(one.order), " "));
  std::vector<std::string> steps;
  for (const pipeline::TimedOrder& each : measured.steps)
    steps.push_back(fmt::format("{:.1f}", each.makespan * kMilli));
  return text + fmt::format("steps: {} ms, {}\n", fmt::join(steps, ", "), measured.transport);
}

std::string pipeline_bench_json(const PipelineCase& one, const PipelineMeasurement& measured) {
  auto json = nlohmann::ordered_json::parse(pipeline_json(one, measured.median()));
  json["transport"] = measured.transport;
  json["errors"] = measured.errors;
  for (const pipeline::TimedOrder& step : measured.steps)
    json["steps_ms"].push_back(step.makespan * kMilli);
  json["simulated"] = {{"makespan_ms", measured.simulated.makespan * kMilli},
                       {"idle_share", measured.simulated.idle_share}};
  return json.dump(1) + "\n";
}

}  // namespace paceline::cli
