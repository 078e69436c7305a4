// The binomial tree of gather and scatter.
#pragma once

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// Every rank hands the chunks of a growing block of ranks, itself first, to the block before. They
// lie in its output on the way (but for its own one, which only the root puts there), so that the
// way back is the scatter. Ranks are numbered from the root on.
Program binomial_gather(const Shape& shape);

// Counts the ranks of the largest subtree below the root has: 0 for one rank.
int largest_subtree(int ranks);

}  // namespace paceline::collective
