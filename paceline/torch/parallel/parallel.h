// The door of parallel: carries out a layout of training. At present: data parallel training.
//
// Each rank holds the whole model and computes on its part of a global batch; every rank ends each
// step with the gradient of the global batch, so that all replicas stay bitwise equal. The room has
// three faces of one path (gradient/gradient_averaging.h):
//
//   data_parallel.h          DataParallel: a model on many processes
//   distributed_optimizer.h  the same as an optimizer that wraps an optimizer
//   mirrored.h               the same on several devices of one process
//
// and join.h for ranks that run out of batches. model_file.h writes the model as one process would
// have it. SyncBatchNorm stands in norm/, clipping and broadcasts in
// replica/. It moves no byte itself: gradients leave autograd through bridge/, schedule/ says which
// travel together, and a Communicator carries them. Not here: who computes on which samples
// (data/), and the update itself (torch::optim). Start reading at data_parallel.h, then
// gradient/gradient_averaging.h.
#pragma once

#include "paceline/torch/norm/norm.h"
#include "paceline/torch/parallel/data_parallel.h"
#include "paceline/torch/parallel/device_of.h"
#include "paceline/torch/parallel/distributed_optimizer.h"
#include "paceline/torch/parallel/join.h"
#include "paceline/torch/parallel/mirrored.h"
#include "paceline/torch/replica/broadcast.h"
#include "paceline/torch/replica/clip_grad_norm.h"
