// Paceline's element types and reductions in MPI's words.
#pragma once

#include <mpi.h>

#include "paceline/core/base/reduce.h"

namespace paceline::mpi {

// Once, after MPI_Init, and before MPI_Finalize.
void make_types();
void free_types();

MPI_Datatype type_of(Dtype dtype);

// MPI's own where it computes the same; else Paceline's (base/reduce.h): of f16, bf16 and bools,
// which MPI does not have, and min and max of floats, where NaN wins. REQUIRES: can_reduce.
MPI_Op op_of(ReduceOp op, Dtype dtype);

}  // namespace paceline::mpi
