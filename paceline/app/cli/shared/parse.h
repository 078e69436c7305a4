// Reads the options of every subcommand.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paceline::cli {

// False when --help was among them: the help has then been written to stdout, and the subcommand
// ends.
// THROWS Error (misuse).
bool parse(CLI::App& app, std::vector<std::string> words);

}  // namespace paceline::cli
