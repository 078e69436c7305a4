// Many tensors in one message.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/host_memory.h"

namespace paceline::parallel {

// A fixed list of dense CPU tensors of any element type, and one piece of memory in which they
// travel.
class CoalescedTensors {
 public:
  CoalescedTensors(std::vector<at::Tensor> tensors, Job* job);

  bool empty() const { return tensors_.empty(); }
  // All ranks end with the values of rank `root`. One message.
  void broadcast(Communicator& group, int root);
  // f32 and f64 tensors: the mean weighted with each rank's `weight`, one message for each of the
  // two. Others: broadcast.
  void average(Communicator& group, double weight, int root);

 private:
  std::vector<at::Tensor> tensors_;
  HostMemory memory_;
  std::unique_ptr<CoalescedTensors> singles_, doubles_, others_;  // made by the first average()
  Job* job_;
};

}  // namespace paceline::parallel
