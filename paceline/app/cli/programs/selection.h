// Finds the algorithms and the mixing graphs that a command is about, and for which shape.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/collective/program/program.h"

namespace CLI {
class App;
}

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

// Programs of more ranks take too long to make and to prove while somebody waits.
inline constexpr int kMostRanks = 1024;

// The options that give the shape for which a collective's programs are made.
struct ShapeOptions {
  std::string ranks = "8";
  std::string root = "0";
  std::string radix = "2";
  std::string groups = {};      // "0,1/2,3"
  std::string dimensions = {};  // "4x2"

  void add_to(CLI::App& app);
  collective::Shape shape() const;  // rank 0's. THROWS Error (misuse)

  // The number of ranks of a mixing graph, which has nothing else to its shape. If none was given,
  // and the graph has not as many as is usual, the least that it has. THROWS Error (misuse).
  int ranks_of(const collective::MixingGraph& graph, const CLI::App& app) const;
};

// "8 ranks, root 3, dimensions 4x2"; without a root where the operation has none.
std::string shape_text(Operation operation, const collective::Shape& shape);

// "--ranks 8 --root 0 --dimensions 4x2"
std::string as_options(const collective::Shape& shape);

// THROWS Error (misuse) when the algorithm has no program for it, with a shape that it has one for.
void check_fit(const collective::Algorithm& algorithm, const collective::Shape& shape);

}  // namespace paceline::cli
