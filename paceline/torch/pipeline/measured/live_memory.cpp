#include "paceline/torch/pipeline/measured/live_memory.h"

#include <c10/core/Allocator.h>

#include <algorithm>

namespace paceline::pipeline {

class LiveMemory::Count final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t,
                         c10::Device device) override {
    if (device.is_cpu()) bytes_ += size;
    peak_ = std::max(peak_, bytes_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t bytes_ = 0, peak_ = 0;
};

LiveMemory::LiveMemory()
    : count_(std::make_shared<Count>()), guard_(c10::DebugInfoKind::PROFILER_STATE, count_) {}

std::int64_t LiveMemory::bytes() const {
  return count_->bytes();
}

std::int64_t LiveMemory::peak() const {
  return count_->peak();
}

}  // namespace paceline::pipeline
