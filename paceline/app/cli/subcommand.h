// What cli.cpp knows of a subcommand.
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

}  // namespace paceline::cli
