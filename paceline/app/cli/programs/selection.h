// Finds the algorithms and the mixing graphs that a command is about.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"

namespace paceline::cli {

// The operation of all mixing graphs: each rank exchanges with those that the graph names. A graph
// has the name of an algorithm where both use the same neighbours (ring), so it needs one.
inline constexpr std::string_view kNeighbours = "neighbours";

struct Selection {
  collective::Catalogue algorithms = {};
  std::vector<collective::MixingGraph> graphs = {};
};

// All of one operation; of every one if `operation` is empty. THROWS Error (misuse) that names the
// known operations.
Selection of_operation(const std::string& operation);

// Those of one name (all if it is empty), or the graph "@FILE" of edges. THROWS Error (misuse) that
// names the known ones.
Selection named(Selection selection, const std::string& name);

using Shown = std::variant<collective::Algorithm, collective::MixingGraph>;

// The one of that name: of the operation, or of the only operation that has it. THROWS Error
// (misuse).
Shown the_one(const std::string& operation, const std::string& name);

}  // namespace paceline::cli
