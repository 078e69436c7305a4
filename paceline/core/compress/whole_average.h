// A tensor that travels whole among those that are compressed, for as long as that pays: the dense
// mean. What error feedback held back of it while it was compressed goes along at once.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

std::unique_ptr<Averaging> whole_average(const Part& part);

}  // namespace paceline::compress
