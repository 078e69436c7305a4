// The options that give the shape for which a collective's programs are made.
#pragma once

#include <string>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "paceline/core/collective/program/program.h"

namespace CLI {
class App;
}

namespace paceline::cli {

// Programs of more ranks take too long to make and to prove while somebody waits.
inline constexpr int kMostRanks = 1024;

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
