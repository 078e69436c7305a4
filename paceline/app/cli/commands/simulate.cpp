#include "paceline/app/cli/commands/commands.h"
#include "paceline/app/cli/shared/subcommand_group.h"

namespace paceline::cli {
namespace {

std::vector<Subcommand> simulations() {
  return {simulate_pipeline(), simulate_survey()};
}

constexpr SubcommandGroup kSimulate = {
    .who = "paceline simulate",
    .about = "Simulates training in virtual time, without a network.",
    .question =
        "which simulation? As in `paceline simulate pipeline` or `paceline simulate survey`",
    .example = "paceline simulate pipeline --schedule 1f1b --stages 4 --micro-batches 8",
    .members = simulations};

}  // namespace

Subcommand simulate() {
  return {"simulate", "forecast schedules of gradients and of pipelines in virtual time",
          [](const std::vector<std::string>& arguments) { return run_group(kSimulate, arguments); },
          [] { return described_group(kSimulate); }};
}

}  // namespace paceline::cli
