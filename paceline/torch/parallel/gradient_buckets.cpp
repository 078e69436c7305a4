#include "paceline/torch/parallel/gradient_buckets.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::parallel {
namespace {

constexpr std::size_t kAlignment = 64;  // of a bucket: a cache line, the widest vector

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

GradientBuckets::GradientBuckets(std::vector<schedule::Bucket> plan,
                                 std::span<const at::Tensor> parameters, Job* job)
    : plan_(std::move(plan)), bucket_of_(parameters.size()), slots_(parameters.size()) {
  std::size_t total = 0;
  for (const schedule::Bucket& bucket : plan_) total += aligned(bucket.bytes);
  memory_ = std::make_shared<HostMemory>(job, total);

  std::byte* start = memory_->bytes().data();
  for (std::size_t b = 0; b < plan_.size(); ++b) {
    buffers_.push_back({start, plan_[b].bytes / size_of(plan_[b].dtype), plan_[b].dtype});
    std::byte* at = start;
    for (int index : plan_[b].gradients) {
      const auto i = static_cast<std::size_t>(index);
      slots_[i] = tensor_over(at, parameters[i], memory_);
      bucket_of_[i] = b;
      at += parameters[i].nbytes();
    }
    start += aligned(plan_[b].bytes);
  }
}

}  // namespace paceline::parallel
