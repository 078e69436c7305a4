// Puts what a subcommand tells into its form: columns on a terminal, a page, a file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::cli {

// The columns of the terminal behind stdout; `otherwise` when stdout is not a terminal.
std::size_t terminal_columns(std::size_t otherwise);

// A line of text for each line of cells, in columns as wide as they need; those of the numbers
// `right` end at the right. REQUIRES: all lines have as many cells.
std::string in_columns(const std::vector<std::vector<std::string>>& lines,
                       const std::vector<std::size_t>& right);

// The frame of every page that the command writes: one file, light or dark, which loads nothing.
// `facts`: what was measured where, name and value. `body`: markup, below them; cells of
// its tables that are no numbers have the class "text".
std::string page(const std::string& title,
                 const std::vector<std::pair<std::string, std::string>>& facts,
                 const std::string& body);

// Writes the file that an option names, or to stdout when it is "-". THROWS Error (misuse) when it
// cannot be written.
void write_output(std::string_view option, const std::string& file, std::string_view text);

}  // namespace paceline::cli
