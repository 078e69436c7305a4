// The ranges of DataParallelOptions' numbers.
#pragma once

#include "paceline/torch/replica/data_parallel_options.h"

namespace paceline::parallel {

// THROWS Error (misuse) that names the option, its value and its range.
void require_in_range(const DataParallelOptions& options);

}  // namespace paceline::parallel
