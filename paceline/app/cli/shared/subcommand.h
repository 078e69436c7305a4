// Subcommands: the catalogue of them, and the functions that find and run one of several.
//
// CMake lists commands/*.cpp and generates built_in_subcommands(); file <name>.cpp defines
// `Subcommand <name>()` in namespace paceline::cli::catalogue. Nothing registers itself.
#pragma once

#include <functional>
#include <limits>
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
  std::function<int(const std::vector<std::string>& arguments)> main;
  // Its options and texts, from which man pages and completions are made.
  std::function<std::shared_ptr<const CLI::App>()> described;
  std::string_view group = {};  // the subcommand below which it stands; empty: `paceline` itself
  // Help lists the lowest place of a group first, and equal ones in the order of their files.
  int place = std::numeric_limits<int>::max();
};

// Subcommand::described, where the options are fields of a Line, which adds them to its `app`.
template <typename Line>
std::shared_ptr<const CLI::App> described() {
  const auto line = std::make_shared<Line>();
  return {line, &line->app};
}

std::vector<Subcommand> built_in_subcommands();                  // in the order of their files
std::vector<Subcommand> subcommands_of(std::string_view group);  // in the order of help

// The list for --help: a line for each with its name and summary.
std::string list_of(const std::vector<Subcommand>& subcommands);

// Prints the error on stderr; `who` is "paceline" or "paceline bench". Returns 2.
int usage_error(std::string_view who, std::string_view what);

// Runs the subcommand that arguments[0] names, with the arguments after it. An unknown one is a
// usage error that suggests a subcommand or one of `options`. Returns the exit code; failures are
// printed on stderr.
int run_one_of(const std::vector<Subcommand>& subcommands, std::string_view who,
               const std::vector<std::string>& options, const std::vector<std::string>& arguments);

// A subcommand that is nothing but several others, such as `paceline bench`.
struct SubcommandGroup {
  std::string_view name;     // "bench", which its members name as their group
  std::string_view summary;  // one line for `paceline --help`
  std::string_view about;    // one sentence
  std::string_view
      question;  // told when no member is named: "no measurement is named; for example ..."
  std::string_view example;
  int place = 0;
};

// It prints the help, or runs the member that its first argument names.
Subcommand subcommand_of(const SubcommandGroup& group);

}  // namespace paceline::cli
