#include "paceline/app/cli/commands/commands.h"
#include "paceline/app/cli/shared/subcommand_group.h"

namespace paceline::cli {
namespace {

std::vector<Subcommand> plans() {
  return {plan_pipeline()};
}

constexpr SubcommandGroup kPlan = {
    .who = "paceline plan",
    .about = "Computes from a recorded model how to divide its training among ranks.",
    .question = "which plan? As in `paceline plan pipeline --profile mlp.json --ranks 2`",
    .example = "paceline plan pipeline --profile mlp.json --ranks 4 --bandwidth 1gbit",
    .members = plans};

}  // namespace

Subcommand plan() {
  return {"plan", "compute where a model's layers should stand, beside data parallelism",
          [](const std::vector<std::string>& arguments) { return run_group(kPlan, arguments); },
          [] { return described_group(kPlan); }};
}

}  // namespace paceline::cli
