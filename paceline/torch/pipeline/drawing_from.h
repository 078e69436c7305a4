// DrawingFrom: while it lives, the process's generator draws from a seed of its own. Afterwards it
// is as it was, so that what layers draw when they are made changes no other draw.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>

namespace paceline::pipeline {

// THREAD: any; one of a process lives at a time, and another one waits for it.
class DrawingFrom {
 public:
  explicit DrawingFrom(std::uint64_t seed);
  ~DrawingFrom();
  DrawingFrom(const DrawingFrom&) = delete;
  DrawingFrom& operator=(const DrawingFrom&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  at::Generator generator_;
  at::Tensor before_;
};

}  // namespace paceline::pipeline
