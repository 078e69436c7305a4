// device_of: the device on which a rank trains.
#pragma once

#include <c10/core/Device.h>

#include "paceline/core/job/job.h"

namespace paceline {

// The CUDA device with the number of this rank among the ranks of its host, modulo the number of
// devices that libtorch sees in this process, so that ranks share devices where there are more of
// them; the CPU where libtorch sees none. It becomes the current device of the calling thread.
//
//   const at::Device device = paceline::device_of(job);
//   model->to(device);  // before DataParallel is made
//   at::Tensor scores = model->forward(batch.to(device));
//
// libtorch sees CUDA devices only in a program that links libtorch_cuda, as the target
// paceline::device does. One that does not, on a host with a device, is told so, once.
at::Device device_of(const Job& job);

}  // namespace paceline
