// The work of `paceline programs verify`: proves a catalogue for many rank counts, on all cores.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/core/collective/program/algorithm_catalogue.h"

namespace paceline::cli {

struct Proofs {
  long passed = 0;                  // shapes with a root
  std::vector<std::string> failed;  // the verifier's objections, in the catalogue's order
};

// Proves every algorithm for every one of the rank counts: each shape of shapes_of with each root
// of roots_of. `progress`
// is called now and then by this thread, with the part that is done.
Proofs prove_all(const collective::Catalogue& catalogue, const std::vector<int>& rank_counts,
                 int threads, const std::function<void(double)>& progress);

}  // namespace paceline::cli
