// The door of linear: linear models on sparse data, in double precision, without torch.
//
// A problem is samples (data/samples.h: sparse rows with labels), a loss (loss/) and a regulariser;
// solvers (solvers/, a file each) minimise it, alone or on the ranks of a group, with samples or
// features split among them. Start reading at data/sparse_rows.h.
#pragma once

#include "paceline/core/linear/data/samples.h"
#include "paceline/core/linear/data/sparse_columns.h"
