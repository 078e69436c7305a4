// Many tensors in one message.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline::replica {

// A fixed list of dense CPU tensors of any element type, and one piece of memory in which they
// travel.
class CoalescedTensors {
 public:
  // Memory is that of `group`.
  CoalescedTensors(std::vector<at::Tensor> tensors, const Communicator& group);

  bool empty() const { return tensors_.empty(); }
  // All ranks end with the values of rank `root`. One message.
  void broadcast(Communicator& group, int root);
  // f32 and f64 tensors: the mean, in which this rank counts `share` times; all shares add up to
  // the number of ranks. One message for each of the two types. Others: broadcast.
  void average(Communicator& group, double share, int root);

 private:
  std::vector<at::Tensor> tensors_;
  Allocation memory_;
  std::unique_ptr<CoalescedTensors> singles_, doubles_, others_;  // made by the first average()
};

// All ranks end with the values of rank `root`. A message holds at most 32 MiB, or one tensor, so
// that little memory is needed beside that of the tensors.
void broadcast_all(const std::vector<at::Tensor>& tensors, Communicator& group, int root);

}  // namespace paceline::replica
