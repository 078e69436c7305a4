// How every subcommand reads its options.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paceline::cli {

// False when --help was among them: then the help stands on stdout and there is nothing more to do.
// THROWS Error (misuse).
bool parse(CLI::App& app, std::vector<std::string> words);

}  // namespace paceline::cli
