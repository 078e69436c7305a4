// The dense mean, for a tensor that travels whole among compressed ones for as long as that pays.
// The residual that error feedback kept while it was compressed is added at once.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

std::unique_ptr<Averaging> whole_average(const Part& part);

}  // namespace paceline::compress
