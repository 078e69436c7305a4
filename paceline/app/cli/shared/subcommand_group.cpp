#include "paceline/app/cli/shared/subcommand_group.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace paceline::cli {
namespace {

std::string help_of(const SubcommandGroup& group) {
  return fmt::format(
      "{0}\n"
      "Usage: {1} SUBCOMMAND [options]\n\n"
      "Subcommands:\n{2}"
      "\n`{1} SUBCOMMAND --help` tells more.\n\n"
      "Example:\n"
      "  {3}\n",
      group.about, group.who, list_of(group.members()), group.example);
}

}  // namespace

std::shared_ptr<const CLI::App> described_group(const SubcommandGroup& group) {
  const auto app = std::make_shared<CLI::App>(group.about, group.who);
  for (const Subcommand& one : group.members())
    app->add_subcommand(std::const_pointer_cast<CLI::App>(one.described()));
  return app;
}

int run_group(const SubcommandGroup& group, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return usage_error(group.who, group.question);
  if (arguments.front() == "-h" || arguments.front() == "--help") {
    fmt::print("{}", help_of(group));
    return 0;
  }
  return run_one_of(group.members(), group.who, {"--help"}, arguments);
}

}  // namespace paceline::cli
