// The door of parallel: carries out a layout of training. At present: data parallel training
// (data_parallel.h).
//
// Each rank holds the whole model and computes on its part of a global batch; DataParallel makes
// every rank end each step with the gradient of the global batch, so that all replicas stay bitwise
// equal. It moves no byte itself: gradients leave autograd through bridge/, schedule/ says which
// travel together, and a Communicator carries them. Not here: who computes on which samples
// (data/), and the update itself (torch::optim). Start reading at data_parallel.h, then reducer.h.
#pragma once

#include "paceline/torch/parallel/data_parallel.h"
