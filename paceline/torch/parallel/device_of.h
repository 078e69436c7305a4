// device_of: the device on which a rank trains.
#pragma once

#include <c10/core/Device.h>

#include "paceline/core/job/job.h"

namespace paceline {

// The CUDA device with number r modulo the devices that libtorch sees, where r is this rank's number
// on its host; after `paceline run --ranks-per-device N` number r / N: THROWS Error (misuse) if it
// is not there. The CPU where libtorch sees none. It becomes the current device of the thread.
//
//   const at::Device device = paceline::device_of(job);
//   model->to(device);  // before DataParallel is made
//   at::Tensor scores = model->forward(batch.to(device));
//
// libtorch sees CUDA devices only in a program that links libtorch_cuda, as the target
// paceline::device does. One that does not, on a host with a device, is told so, once.
at::Device device_of(const Job& job);

}  // namespace paceline
