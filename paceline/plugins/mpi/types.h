// Maps Paceline's element types and reductions to MPI's.
#pragma once

#include <mpi.h>

#include "paceline/core/base/reduce.h"

namespace paceline::mpi {

// Call it once, after MPI_Init. MPI_Finalize frees the types.
void make_types();

MPI_Datatype type_of(Dtype dtype);

// MPI's own operation if it computes the same, else Paceline's (base/reduce.h): for f16, bf16 and
// bools, which MPI does not have, and for min and max of floats, where NaN wins. REQUIRES:
// can_reduce.
MPI_Op op_of(ReduceOp op, Dtype dtype);

}  // namespace paceline::mpi
