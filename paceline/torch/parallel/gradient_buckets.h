// The memory in which gradients travel: one slot for each parameter, the slots of a bucket side by
// side.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/parallel/host_memory.h"

namespace paceline::parallel {

class GradientBuckets {
 public:
  GradientBuckets(std::vector<schedule::Bucket> plan, std::span<const at::Tensor> parameters,
                  Job* job);

  const std::vector<schedule::Bucket>& plan() const { return plan_; }
  Buffer buffer(std::size_t bucket) const { return buffers_[bucket]; }
  std::size_t bucket_of(std::size_t parameter) const { return bucket_of_[parameter]; }
  // Shaped like the parameter. Keeps the memory alive by itself, so a grad may outlive this object.
  const at::Tensor& slot(std::size_t parameter) const { return slots_[parameter]; }
  const std::shared_ptr<HostMemory>& memory() const { return memory_; }

 private:
  std::vector<schedule::Bucket> plan_;
  std::shared_ptr<HostMemory> memory_;
  std::vector<Buffer> buffers_;         // by bucket
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<at::Tensor> slots_;       // by parameter
};

}  // namespace paceline::parallel
