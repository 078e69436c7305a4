// The door of optimizers: optimizers that libtorch does not have, as torch::optim::Optimizer
// (docs/optimizers/README.md).
//
//   lars.h, lamb.h    large batches: the step of each tensor is measured by the tensor's own norm
//   quasi_newton.h    L-BFGS, BFGS and DFP with a line search: whole batches, few iterations
//   online_l_bfgs.h   L-BFGS on mini-batches, without a line search
//   sqn.h             stochastic quasi-Newton: curvature from Hessian-vector products
//   svrg.h            SGD whose gradients lose their variance
//
// known_optimizers.h is the table of these and torch's: what each keeps, its options, and where it
// may step.
//
// Underneath: sums of squares that may reach over shards (norms.h), the parameters as one vector
// (curvature_pairs.h), and what is known of the curvature (curvature_pairs.h). The line search and
// the two-loop recursion are those of core/quasi_newton.
//
// Nothing here knows of ranks: gradients and losses come from closures, in which DataParallel makes
// them those of all ranks. The same numbers on all ranks then lead to the same branches. Start
// reading at lars.h, then quasi_newton.h.
#pragma once

#include "paceline/torch/optimizers/known_optimizers.h"
#include "paceline/torch/optimizers/lamb.h"
#include "paceline/torch/optimizers/lars.h"
#include "paceline/torch/optimizers/norms.h"
#include "paceline/torch/optimizers/online_l_bfgs.h"
#include "paceline/torch/optimizers/quasi_newton.h"
#include "paceline/torch/optimizers/sqn.h"
#include "paceline/torch/optimizers/svrg.h"
