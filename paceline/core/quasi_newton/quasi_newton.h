// The door of quasi_newton: the steps of L-BFGS without its vectors.
//
//   wolfe_search.h   the line search, as a machine that asks for one evaluation after the other
//   two_loop.h       the two-loop recursion, as a machine that asks for inner products
//   inner_product.h  an inner product whose bits depend on the vectors alone
//
// The machines ask, and those who hold the vectors carry it out: tensors of one process
// (paceline::optimizers), or servers that hold a part of each vector (core/server). Start reading
// at two_loop.h.
#pragma once

#include "paceline/core/quasi_newton/inner_product.h"
#include "paceline/core/quasi_newton/two_loop.h"
#include "paceline/core/quasi_newton/wolfe_search.h"
