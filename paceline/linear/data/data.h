// The door of data: the samples of linear models, and which rank has which of them.
//
// Samples (samples.h) are sparse rows (sparse_rows.h) with labels; methods that walk over features
// read the same matrix by columns (sparse_columns.h). They come from files in LIBSVM's format
// (libsvm.h). The seed of a run gives each rank its samples (split.h). Start reading at samples.h.
#pragma once

#include "paceline/linear/data/libsvm.h"
#include "paceline/linear/data/samples.h"
#include "paceline/linear/data/sparse_columns.h"
#include "paceline/linear/data/split.h"
