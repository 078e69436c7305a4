// How wide what the user sees is.
#pragma once

#include <cstddef>

namespace paceline::cli {

// Of the terminal behind stdout; `otherwise` where stdout is none.
std::size_t terminal_columns(std::size_t otherwise);

}  // namespace paceline::cli
