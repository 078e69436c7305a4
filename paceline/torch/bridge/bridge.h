// The door of bridge: the only place where at::Tensor becomes a Buffer and autograd becomes events.
//
//   tensors.h         a tensor's bytes as a Buffer, and a tensor over memory of ours
//   gradient_hook.h   "a gradient arrives", "a gradient was accumulated", for one parameter
//   first_use.h       "an operator is about to read this tensor, or this storage, for the first
//                     time"
//   digest.h          a fingerprint of parameters
//   ordered_fold.h    sums that are the same on all ranks
//   opened_member.h   what libtorch keeps and gives no access to
//   later_gradients.h a backward pass that leaves the gradients of parameters for later
//
// own_thread.h knows the thread that an object belongs to, as libtorch's modes do. The room knows
// nothing of ranks and sends nothing. Start reading at tensors.h.
#pragma once

#include "paceline/torch/bridge/digest.h"
#include "paceline/torch/bridge/first_use.h"
#include "paceline/torch/bridge/gradient_hook.h"
#include "paceline/torch/bridge/later_gradients.h"
#include "paceline/torch/bridge/opened_member.h"
#include "paceline/torch/bridge/ordered_fold.h"
#include "paceline/torch/bridge/own_thread.h"
#include "paceline/torch/bridge/tensors.h"
