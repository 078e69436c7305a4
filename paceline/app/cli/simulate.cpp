#include "paceline/app/cli/simulate.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/app/cli/survey/simulate_survey.h"

namespace paceline::cli {
namespace {

constexpr const char* kSimulateAbout = "Simulates training in virtual time, without a network.";

std::vector<Subcommand> simulations() {
  return {simulate_survey()};
}

std::string simulate_help() {
  return fmt::format(
      "{}\n"
      "Usage: paceline simulate SUBCOMMAND [options]\n\n"
      "Subcommands:\n{}"
      "\n`paceline simulate SUBCOMMAND --help` tells more.\n\n"
      "Example:\n"
      "  paceline simulate survey --html survey.html\n",
      kSimulateAbout, list_of(simulations()));
}

std::shared_ptr<const CLI::App> described_simulate() {
  const auto app = std::make_shared<CLI::App>(kSimulateAbout, "paceline simulate");
  for (const Subcommand& one : simulations())
    app->add_subcommand(std::const_pointer_cast<CLI::App>(one.described()));
  return app;
}

int simulate_main(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    return usage_error("paceline simulate", "which simulation? As in `paceline simulate survey`");
  if (arguments.front() == "-h" || arguments.front() == "--help") {
    fmt::print("{}", simulate_help());
    return 0;
  }
  return run_one_of(simulations(), "paceline simulate", {"--help"}, arguments);
}

}  // namespace

Subcommand simulate() {
  return {"simulate", "forecast schedules in virtual time, beside the survey's figures",
          simulate_main, described_simulate};
}

}  // namespace paceline::cli
