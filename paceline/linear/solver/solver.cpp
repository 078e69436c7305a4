#include "paceline/linear/solver/solver.h"

namespace paceline::linear {

std::vector<std::size_t> SolverContext::own_samples() const {
  return part_of(samples.size(), split, seed, group.rank(), group.size());
}

}  // namespace paceline::linear
