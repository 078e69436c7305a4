#include "paceline/core/base/trace_log.h"

#include <utility>

namespace paceline {

void TraceLog::record(TraceSpan span) {
  if (!enabled()) return;
  const std::lock_guard lock(mutex_);
  if (spans_.size() == kMostSpans) ++dropped_;
  else spans_.push_back(std::move(span));
}

std::vector<TraceSpan> TraceLog::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

std::size_t TraceLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

TraceScope::TraceScope(TraceLog& log, TraceLane lane, std::string name) : log_(log) {
  if (log_.enabled()) span_ = {lane, std::move(name), TraceLog::now(), 0};
}

TraceScope::~TraceScope() {
  if (span_.begin_ns == 0) return;
  span_.end_ns = TraceLog::now();
  log_.record(std::move(span_));
}

}  // namespace paceline
