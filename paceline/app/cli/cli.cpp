#include "paceline/app/cli/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "paceline/app/cli/doctor.h"
#include "paceline/app/cli/run.h"
#include "paceline/app/cli/suggestion.h"
#include "paceline/app/cli/version.h"
#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

constexpr int kFailed = 1, kUsage = 2, kRefused = 4;

std::vector<Subcommand> subcommands() {
  return {run(), doctor()};
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
         "  --version   which Paceline this is\n\n"
         "Example:\n"
         "  paceline run -n 2 build/release/bin/fashion_mnist --model cnn\n";
}

int usage_error(std::string_view who, std::string_view what) {
  fmt::print(stderr, "{0}: {1}\nTry `{0} --help`.\n", who, what);
  return kUsage;
}

int unknown(const std::string& word) {
  std::vector<std::string> known = {"--help", "--version"};
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
  const auto known = subcommands();
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const auto& s) { return s.name == first; });
  if (found == known.end()) return unknown(first);
  return dispatch(*found, {arguments.begin() + 1, arguments.end()});
}

}  // namespace paceline::cli
