#include "paceline/app/cli/shared/subcommand_group.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace paceline::cli {
namespace {

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

Subcommand subcommand_of(const SubcommandGroup& group) {
  return {.name = group.name,
          .summary = group.summary,
          .main = [group](const auto& arguments) { return run_group(group, arguments); },
          .described = [group] { return described_group(group); },
          .place = group.place};
}

}  // namespace paceline::cli
