// The catalogue of solvers (docs/solvers/): their settings, and which problems they fit.
//
// CMake lists solvers/*.cpp and generates built_in_solvers(); file <name>.cpp defines
// `SolverMethod <name>()` in namespace paceline::linear::catalogue. Nothing registers itself.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "paceline/core/settings/named_choice.h"
#include "paceline/linear/solver/solver.h"

namespace paceline::linear {

struct SolverMethod {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view reference;
  std::vector<Setting> settings = {};

  enum class Parts : std::uint8_t {
    samples,   // each rank has a part of the samples
    features,  // each rank has a part of the features, so there are at most as many ranks
    one,       // the method runs in one process
  } parts = Parts::samples;
  bool takes_l1 = false;
  bool needs_l2 = false;      // its dual objective needs l2 above 0
  bool needs_smooth = false;  // it needs a loss whose derivative has no jumps

  std::unique_ptr<Solver> (*make)(const Settings&, const SolverContext&) = nullptr;
};

std::vector<SolverMethod> built_in_solvers();  // sorted by name

using SolverChoice = NamedChoice<SolverMethod>;
// Parses "NAME" or "NAME:SETTING=VALUE,SETTING=VALUE". A failure (misuse) says what is wrong and
// lists the valid names.
Result<SolverChoice> parse_solver(std::string_view text);

// Whether the solver fits the problem, the data and the number of ranks. A failure (misuse) says
// what the solver lacks, and which ones have it.
Result<> check_solver(const SolverMethod& method, const Problem& problem, const Samples& samples,
                      int ranks);

// THROWS Error (misuse): check_problem or check_solver fails.
std::unique_ptr<Solver> make_solver(const SolverChoice& choice, const SolverContext& context);

}  // namespace paceline::linear
