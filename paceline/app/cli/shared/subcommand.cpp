#include "paceline/app/cli/shared/subcommand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/core/base/result.h"
#include "paceline/core/base/suggestion.h"

namespace paceline::cli {
namespace {

int dispatch(const Subcommand& subcommand, const std::string& who,
             const std::vector<std::string>& arguments) {
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

std::string who_of(const SubcommandGroup& group) {
  return fmt::format("paceline {}", group.name);
}

std::string help_of(const SubcommandGroup& group) {
  return fmt::format(
      "{0}\n"
      "Usage: {1} SUBCOMMAND [options]\n\n"
      "Subcommands:\n{2}"
      "\n`{1} SUBCOMMAND --help` tells more.\n\n"
      "Example:\n"
      "  {3}\n",
      group.about, who_of(group), list_of(subcommands_of(group.name)), group.example);
}

std::shared_ptr<const CLI::App> described_group(const SubcommandGroup& group) {
  const auto app = std::make_shared<CLI::App>(std::string(group.about), who_of(group));
  for (const Subcommand& one : subcommands_of(group.name))
    app->add_subcommand(std::const_pointer_cast<CLI::App>(one.described()));
  return app;
}

int run_group(const SubcommandGroup& group, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return usage_error(who_of(group), group.question);
  if (arguments.front() == "-h" || arguments.front() == "--help") {
    fmt::print("{}", help_of(group));
    return 0;
  }
  return run_one_of(subcommands_of(group.name), who_of(group), {"--help"}, arguments);
}

}  // namespace

std::vector<Subcommand> subcommands_of(std::string_view group) {
  std::vector<Subcommand> all = built_in_subcommands();
  std::erase_if(all, [&](const Subcommand& one) { return one.group != group; });
  std::ranges::stable_sort(all, {}, &Subcommand::place);
  return all;
}

std::string list_of(const std::vector<Subcommand>& subcommands) {
  std::string text;
  for (const auto& subcommand : subcommands)
    text += fmt::format("  {:<12}{}\n", subcommand.name, subcommand.summary);
  return text;
}

int usage_error(std::string_view who, std::string_view what) {
  fmt::print(stderr, "{0}: {1}\nTry `{0} --help`.\n", who, what);
  return kUsage;
}

int run_one_of(const std::vector<Subcommand>& subcommands, std::string_view who,
               const std::vector<std::string>& options, const std::vector<std::string>& arguments) {
  const std::string& word = arguments.front();
  const auto found = std::ranges::find(subcommands, word, &Subcommand::name);
  if (found != subcommands.end()) {
    return dispatch(*found, fmt::format("{} {}", who, word),
                    {arguments.begin() + 1, arguments.end()});
  }
  std::vector<std::string> known = options;
  for (const auto& subcommand : subcommands) known.emplace_back(subcommand.name);
  const char* kind = word.starts_with('-') ? "option" : "subcommand";
  return usage_error(who, fmt::format("unknown {} {}{}", kind, word, suggestion(word, known)));
}

Subcommand subcommand_of(const SubcommandGroup& group) {
  return {.name = group.name,
          .summary = group.summary,
          .main = [group](const auto& arguments) { return run_group(group, arguments); },
          .described = [group] { return described_group(group); },
          .place = group.place};
}

}  // namespace paceline::cli
