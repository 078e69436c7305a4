#include "paceline/app/cli/simulate.h"

#include "paceline/app/cli/shared/subcommand_group.h"
#include "paceline/app/cli/survey/simulate_survey.h"

namespace paceline::cli {
namespace {

std::vector<Subcommand> simulations() {
  return {simulate_survey()};
}

constexpr SubcommandGroup kSimulate = {
    .who = "paceline simulate",
    .about = "Simulates training in virtual time, without a network.",
    .question = "which simulation? As in `paceline simulate survey`",
    .example = "paceline simulate survey --html survey.html",
    .members = simulations};

}  // namespace

Subcommand simulate() {
  return {"simulate", "forecast schedules in virtual time, beside the survey's figures",
          [](const std::vector<std::string>& arguments) { return run_group(kSimulate, arguments); },
          [] { return described_group(kSimulate); }};
}

}  // namespace paceline::cli
