// The work of `paceline programs verify`: proves the catalogues for many rank counts, on all cores.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/app/cli/programs/selection.h"

namespace paceline::cli {

struct Proofs {
  long passed = 0;                  // shapes with a root; of a mixing graph, numbers of ranks
  std::vector<std::string> failed;  // the verifier's objections, in the catalogues' order
};

// Proves every algorithm for every one of the rank counts: each shape of shapes_of with each root
// of roots_of; then every mixing graph for those that it has. `progress` is called now and then by
// this thread, with the part that is done.
Proofs prove_all(const Selection& selection, const std::vector<int>& rank_counts, int threads,
                 const std::function<void(double)>& progress);

}  // namespace paceline::cli
