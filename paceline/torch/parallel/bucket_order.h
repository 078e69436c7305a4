// In which order gradients are expected, and so which travel together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/core/collective/communicator.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/parallel/data_parallel.h"
#include "paceline/torch/parallel/model_parts.h"

namespace paceline::parallel {

class BucketOrder {
 public:
  BucketOrder(std::span<const Parameter> parameters, const DataParallelOptions& options);

  // Before anything was observed: reverse registration order.
  std::vector<schedule::Bucket> first_plan() const;
  bool is_settled() const { return settled_; }
  // By the order in which rank 0's gradients came in its first step; all ranks call it together.
  // Settles it.
  std::vector<schedule::Bucket> observed_plan(Communicator& group, std::span<const int> arrived);
  // How many gradients came after one that stands later in the plan.
  int late_in(const std::vector<schedule::Bucket>& plan, std::span<const int> arrived) const;

 private:
  std::vector<schedule::Gradient> shapes_;
  schedule::BucketCaps caps_;
  bool settled_;
};

}  // namespace paceline::parallel
