// What cli.cpp knows of a subcommand, and how one of several is found and run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace paceline::cli {

struct Subcommand {
  std::string_view name;
  std::string_view summary;  // one line for `paceline --help`
  // Gets what stands behind its name and returns the exit code. THROWS Error; misuse is a usage
  // error.
  int (*main)(const std::vector<std::string>& arguments);
  // Its options and texts, from which man pages and completions are made.
  std::shared_ptr<const CLI::App> (*described)();
};

// A line for each: its name, what it does.
std::string list_of(const std::vector<Subcommand>& subcommands);

// Tells what was wrong on stderr; `who` is "paceline" or "paceline bench". Returns 2.
int usage_error(std::string_view who, std::string_view what);

// Runs the one that arguments[0] names, with what stands behind it; an unknown one is a usage error
// that suggests one of them or of `options`. Returns the exit code: failures are told on stderr.
int run_one_of(const std::vector<Subcommand>& subcommands, std::string_view who,
               const std::vector<std::string>& options, const std::vector<std::string>& arguments);

}  // namespace paceline::cli
