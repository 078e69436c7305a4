// Reads the words of the command line, by the parts of CLI11 that subcommands need.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace paceline::cli {

// False when --help was among them: the help has then been written to stdout, and the subcommand
// ends.
// THROWS Error (misuse).
bool parse(CLI::App& app, std::vector<std::string> words);

struct SplitCommand {
  std::vector<std::string> options;
  std::vector<std::string> command;
  bool operator==(const SplitCommand&) const = default;
};

// Finds where the options of `paceline run` end and the user's program begins: at "--", or at the
// first word that is neither an option nor an option's value (as in torchrun and mpirun). "-np", as
// mpirun spells it, is "--np" where `app` has that. THROWS Error (misuse) at an option that `app`
// does not know, and at one that is given twice and has one value.
SplitCommand split_command(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace paceline::cli
