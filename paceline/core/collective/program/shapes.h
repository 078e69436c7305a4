// The shapes for which an algorithm is proven: every way in which the same number of ranks can look
// different to it.
#pragma once

#include <vector>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// Every shape of `ranks` ranks for which the algorithm builds a different program: no topology
// given; other tree radices; hosts of equal and of unequal size, their ranks in blocks and in
// turns; grids of two and of more dimensions. All have root 0 and rank 0. Empty: the algorithm fits
// no shape of this many ranks that is known here.
std::vector<Shape> shapes_of(const Algorithm& algorithm, int ranks);

// Roots to prove an operation for: all up to 16 ranks, else the first two, the middle one and the
// last. Rank 0 alone where no rank is special.
std::vector<int> roots_of(Operation operation, int ranks);

}  // namespace paceline::collective
