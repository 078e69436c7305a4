// Whether the processor has instructions for numbers of 16 bits.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

#include "paceline/torch/precision/choice.h"

namespace paceline::precision {

// Whether this processor multiplies numbers of `type` itself; where it does not, libtorch converts
// them to float32 for each product. True where nobody knows: on processors other than x86.
bool processor_multiplies(at::ScalarType type);

// Returns the words that warn a user whose processor does not multiply numbers of the choice's
// type; empty where there is nothing to tell.
std::string slowness_of(const Choice& choice, bool processor_multiplies);

}  // namespace paceline::precision
