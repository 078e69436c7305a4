#include "paceline/app/cli/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "paceline/app/cli/doctor.h"
#include "paceline/app/cli/manual.h"
#include "paceline/app/cli/programs.h"
#include "paceline/app/cli/run.h"
#include "paceline/app/cli/suggestion.h"
#include "paceline/app/cli/top.h"
#include "paceline/app/cli/version.h"
#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

constexpr int kFailed = 1, kUsage = 2, kRefused = 4;

std::vector<Subcommand> subcommands() {
  return {run(), programs(), doctor(), top()};
}

std::string help() {
  std::string text =
      "Paceline trains one network on many processes.\n"
      "Usage: paceline SUBCOMMAND [options]\n\n"
      "Subcommands:\n";
  for (const auto& subcommand : subcommands()) {
    text += fmt::format("  {:<12}{}\n", subcommand.name, subcommand.summary);
  }
  return text +
         "\nOptions:\n"
         "  -h, --help  this text; `paceline SUBCOMMAND --help` tells more\n"
         "  --version   which Paceline this is\n"
         "  --completion SHELL   a script for bash, zsh or fish: source <(paceline --completion "
         "bash)\n"
         "  --man [SUBCOMMAND]   a page for man: paceline --man run | man -l -\n\n"
         "Example:\n"
         "  paceline run -n 2 build/release/bin/fashion_mnist --model cnn\n";
}

int usage_error(std::string_view who, std::string_view what) {
  fmt::print(stderr, "{0}: {1}\nTry `{0} --help`.\n", who, what);
  return kUsage;
}

// What is made of the subcommands' own options: their apps live as long as this.
struct Descriptions {
  std::vector<std::shared_ptr<const CLI::App>> apps;
  std::vector<Described> all;
  Descriptions() {
    for (const auto& subcommand : subcommands()) {
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

int unknown(const std::string& word) {
  std::vector<std::string> known = {"--help", "--version", "--completion", "--man"};
  for (const auto& subcommand : subcommands()) known.emplace_back(subcommand.name);
  const char* kind = word.starts_with('-') ? "option" : "subcommand";
  return usage_error("paceline",
                     fmt::format("unknown {} {}{}", kind, word, suggestion(word, known)));
}

int dispatch(const Subcommand& subcommand, const std::vector<std::string>& arguments) {
  const auto who = fmt::format("paceline {}", subcommand.name);
  try {
    return subcommand.main(arguments);
  } catch (const Error& error) {
    if (error.fault() == Fault::misuse) return usage_error(who, error.what());
    fmt::print(stderr, "{}: {}\n", who, error.what());
    return error.fault() == Fault::refused ? kRefused : kFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", who, error.what());
    return kFailed;
  }
}

}  // namespace

int run_cli(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    return usage_error("paceline", "which subcommand? As in `paceline run -n 2 program`");
  const std::string& first = arguments.front();
  if (first == "-h" || first == "--help" || first == "help") {
    fmt::print("{}", help());
    return 0;
  }
  if (first == "--version") {
    fmt::print("paceline {}\n", kVersion);
    return 0;
  }
  if (first == "--completion") return print_completion(arguments);
  if (first == "--man") return print_manual(arguments);
  const auto known = subcommands();
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const auto& s) { return s.name == first; });
  if (found == known.end()) return unknown(first);
  return dispatch(*found, {arguments.begin() + 1, arguments.end()});
}

}  // namespace paceline::cli
