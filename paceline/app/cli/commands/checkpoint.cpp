#include "paceline/app/cli/commands/commands.h"
#include "paceline/app/cli/shared/subcommand_group.h"

namespace paceline::cli {
namespace {

std::vector<Subcommand> looks() {
  return {checkpoint_list(), checkpoint_show(), checkpoint_verify(), checkpoint_diff()};
}

constexpr SubcommandGroup kCheckpoint = {
    .who = "paceline checkpoint",
    .about = "Looks at the checkpoints that runs have saved.",
    .question = "which look? As in `paceline checkpoint ls runs/a`",
    .example = "paceline checkpoint verify runs/a",
    .members = looks};

}  // namespace

Subcommand checkpoint() {
  return {
      "checkpoint", "list, show, verify and compare what runs have saved",
      [](const std::vector<std::string>& arguments) { return run_group(kCheckpoint, arguments); },
      [] { return described_group(kCheckpoint); }};
}

}  // namespace paceline::cli
