// The texts of `paceline programs`: the catalogue as a table and as JSON, and the programs of one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/app/cli/programs/graphs_table.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/verify.h"

namespace paceline::cli {

// One algorithm, and what it costs for a number of ranks.
struct ProgramsRow {
  collective::Algorithm algorithm;
  std::vector<int> balanced_for;  // rank counts up to 64 with the balanced summation tree
  bool fits = false;              // it has programs for a shape of this many ranks
  collective::Shape shape;        // the shape that fits
  collective::Counters counters;
  double sent = 0;  // the most that a rank sends, in lengths of a rank's longest vector
};

std::vector<ProgramsRow> programs_rows(const collective::Catalogue& catalogue, int ranks);
std::string programs_table(const std::vector<ProgramsRow>& rows, int ranks);
// The list has mixing graphs too, which have figures of their own.
std::string programs_json(const std::vector<ProgramsRow>& rows, const std::vector<GraphRow>& graphs,
                          int ranks);

// The text of `paceline programs show`, for the programs of one shape.
//
// Two lines: the costs, and the order of summation.
std::string programs_header(const collective::Algorithm& algorithm, const collective::Shape& shape,
                            const collective::Proof& proof);

// Puts all ranks beside each other when they fit into `columns`, else below each other; a text that
// is too long to read says how to see less at a time.
std::string programs_text(const std::vector<collective::Program>& programs, std::size_t columns);

}  // namespace paceline::cli
