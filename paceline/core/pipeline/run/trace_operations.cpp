#include "paceline/core/pipeline/run/trace_operations.h"

#include <fmt/format.h>

#include <chrono>

namespace paceline::pipeline {
namespace {

std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

char letter_of(Kind kind) {
  switch (kind) {
    case Kind::forward: return 'F';
    case Kind::backward: return 'B';
    case Kind::weight: return 'W';
  }
  return '?';
}

}  // namespace

void trace_operations(const StepReport& report, TraceLog& log) {
  if (!log.enabled()) return;
  for (const auto& [operation, begin, end] : report.operations) {
    log.record({TraceLane::stages,
                fmt::format("{} micro-batch {} on stage {}", letter_of(operation.kind),
                            operation.micro_batch, operation.stage),
                nanoseconds(begin), nanoseconds(end)});
  }
}

}  // namespace paceline::pipeline
