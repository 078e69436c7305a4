#include "paceline/app/cli/bench/waiting_stages.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

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

}  // namespace paceline::cli
