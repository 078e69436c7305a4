// Writes the files that options name.
#pragma once

#include <string>
#include <string_view>

namespace paceline::cli {

// Writes to stdout when the file is "-". THROWS Error (misuse) when it cannot be written.
void write_output(std::string_view option, const std::string& file, std::string_view text);

}  // namespace paceline::cli
