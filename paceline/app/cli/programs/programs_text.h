// The text of `paceline programs show`: the programs of one shape.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/verify.h"

namespace paceline::cli {

// Two lines: the costs, and the order of summation.
std::string programs_header(const collective::Algorithm& algorithm, const collective::Shape& shape,
                            const collective::Proof& proof);

// Puts all ranks beside each other when they fit into `columns`, else below each other; a text that
// is too long to read says how to see less at a time.
std::string programs_text(const std::vector<collective::Program>& programs, std::size_t columns);

}  // namespace paceline::cli
