// Finds the width of the user's terminal.
#pragma once

#include <cstddef>

namespace paceline::cli {

// The columns of the terminal behind stdout; `otherwise` when stdout is not a terminal.
std::size_t terminal_columns(std::size_t otherwise);

}  // namespace paceline::cli
