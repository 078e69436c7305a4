#include "paceline/app/cli/cli.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/app/cli/manual.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/core/base/version.h"

namespace paceline::cli {
namespace {

constexpr const char* kReleased = "2026-11-21";  // the date of man pages

std::string command_help() {
  return "Paceline trains one network on many processes.\n"
         "Usage: paceline SUBCOMMAND [options]\n\n"
         "Subcommands:\n" +
         list_of(subcommands_of({})) +
         "\nOptions:\n"
         "  -h, --help  this text; `paceline SUBCOMMAND --help` tells more\n"
         "  --version   the version of Paceline\n"
         "  --completion SHELL   a script for bash, zsh or fish: source <(paceline --completion "
         "bash)\n"
         "  --man [SUBCOMMAND]   a page for man: paceline --man run | man -l -\n\n"
         "Example:\n"
         "  paceline run -n 2 build/release/bin/mnist\n";
}

// Descriptions of the subcommands, made from their options; it keeps their apps alive.
struct Descriptions {
  std::vector<std::shared_ptr<const CLI::App>> apps;
  std::vector<Described> all;
  Descriptions() {
    for (const auto& subcommand : subcommands_of({})) {
      apps.push_back(subcommand.described());
      all.push_back({subcommand.name, subcommand.summary, apps.back().get()});
    }
  }
};

int print_completion(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2 || std::ranges::find(shells(), arguments[1]) == shells().end()) {
    return usage_error("paceline",
                       fmt::format("--completion wants one shell: {}", fmt::join(shells(), ", ")));
  }
  fmt::print("{}", completion(arguments[1], Descriptions().all));
  return 0;
}

int print_manual(const std::vector<std::string>& arguments) {
  const Descriptions descriptions;
  if (arguments.size() == 1) {
    fmt::print("{}", man_page(descriptions.all, kVersion, kReleased));
    return 0;
  }
  const auto found = std::ranges::find(descriptions.all, arguments[1], &Described::name);
  if (arguments.size() != 2 || found == descriptions.all.end()) {
    return usage_error("paceline",
                       "--man wants one subcommand or none; `paceline --help` lists them");
  }
  fmt::print("{}", man_page(*found, kVersion, kReleased));
  return 0;
}

}  // namespace

int run_cli(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    return usage_error("paceline",
                       "no subcommand is given; for example `paceline run -n 2 program`");
  const std::string& first = arguments.front();
  if (first == "-h" || first == "--help" || first == "help") {
    fmt::print("{}", command_help());
    return 0;
  }
  if (first == "--version") {
    fmt::print("paceline {}\n", kVersion);
    return 0;
  }
  if (first == "--completion") return print_completion(arguments);
  if (first == "--man") return print_manual(arguments);
  return run_one_of(subcommands_of({}), "paceline",
                    {"--help", "--version", "--completion", "--man"}, arguments);
}

}  // namespace paceline::cli
