// LiveMemory: the bytes that libtorch has taken from the processor's memory, and not given back,
// while it lives.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace paceline::pipeline {

// THREAD: the one that makes it, whose allocations it sees. No profiler of libtorch may be on. They
// nest like scopes, and the inner one alone counts.
class LiveMemory {
 public:
  LiveMemory();
  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;

  std::int64_t bytes() const;  // less than 0: more was given back than taken
  std::int64_t peak() const;   // the most that they have been

 private:
  class Count;
  std::shared_ptr<Count> count_;
  c10::DebugInfoGuard guard_;
};

}  // namespace paceline::pipeline
