// A subcommand as cli.cpp sees it, and the functions that find and run one of several.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace paceline::cli {

// The command exits with one of these; with 0 after success.
inline constexpr int kFailed = 1, kUsage = 2, kRefused = 4;

struct Subcommand {
  std::string_view name;
  std::string_view summary;  // one line for `paceline --help`
  // Gets the arguments after its name and returns the exit code. THROWS Error; misuse is a usage
  // error.
  int (*main)(const std::vector<std::string>& arguments);
  // Its options and texts, from which man pages and completions are made.
  std::shared_ptr<const CLI::App> (*described)();
};

// The list for --help: a line for each with its name and summary.
std::string list_of(const std::vector<Subcommand>& subcommands);

// Prints the error on stderr; `who` is "paceline" or "paceline bench". Returns 2.
int usage_error(std::string_view who, std::string_view what);

// Runs the subcommand that arguments[0] names, with the arguments after it. An unknown one is a
// usage error that suggests a subcommand or one of `options`. Returns the exit code; failures are
// printed on stderr.
int run_one_of(const std::vector<Subcommand>& subcommands, std::string_view who,
               const std::vector<std::string>& options, const std::vector<std::string>& arguments);

}  // namespace paceline::cli
