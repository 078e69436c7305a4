// Finds what is wrong with a program by reading it, rank by rank, without running it.
#pragma once

#include <span>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// Refuses: peers that are no rank, chunks and places that do not exist, slots that the rank does
// not have in this operation, writes into an input, steps that mix chunks, rounds whose steps
// depend on each other (also when the operation runs in place), `completes` where nothing is
// completed, programs of different chunk counts. `shape.rank` is ignored: programs[r] is rank r's.
Result<Done> check_form(Operation operation, const Shape& shape, std::span<const Program> programs);

}  // namespace paceline::collective
