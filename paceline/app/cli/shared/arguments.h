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

// Adds options that have one value. Use: add(name, where the value goes, how it is written, help).
inline auto adder(CLI::App& app) {
  return [&app](const char* name, std::string& to, const char* form, const std::string& help) {
    return app.add_option(name, to, help)->type_name(form);
  };
}
// The same, for a subcommand whose help has room for long names, and ends with `more`.
inline auto adder(CLI::App& app, const char* more) {
  app.get_formatter()->column_width(34);
  app.footer(more);
  return adder(app);
}

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
