// What `paceline programs show` prints: the programs of one shape as text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/core/collective/program.h"
#include "paceline/core/collective/verify.h"

namespace paceline::cli {

// Two lines: what it costs, and in which order it sums.
std::string programs_header(const collective::Algorithm& algorithm, const collective::Shape& shape,
                            const collective::Proof& proof);

// All ranks beside each other where they fit into `columns`, else below each other; where that is
// more than a reader wants, how to see less at a time.
std::string programs_text(const std::vector<collective::Program>& programs, std::size_t columns);

}  // namespace paceline::cli
