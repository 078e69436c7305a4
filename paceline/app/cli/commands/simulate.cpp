// `paceline simulate`: computes how long schedules would take, in virtual time.
#include <fmt/format.h>

#include <cstdio>

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {
namespace {

// The simulation of the survey, which was a subcommand here, is a program of its own.
int tell_of_survey() {
  fmt::print(stderr,
             "paceline simulate survey: it is the program bench_survey now, with the same options; "
             "build it by `cmake --build --preset release --target bench_survey`\n");
  return kUsage;
}

}  // namespace

namespace catalogue {

Subcommand simulate() {
  Subcommand group =
      subcommand_of({.name = "simulate",
                     .summary = "forecast schedules of pipelines in virtual time",
                     .about = "Simulates training in virtual time, without a network.",
                     .question = "no simulation is named; for example `paceline simulate pipeline`",
                     .example = "paceline simulate pipeline --schedule 1f1b --stages 4 "
                                "--micro-batches 8",
                     .place = 60});
  group.main = [main = group.main](const std::vector<std::string>& arguments) {
    const bool is_survey = !arguments.empty() && arguments.front() == "survey";
    return is_survey ? tell_of_survey() : main(arguments);
  };
  return group;
}

}  // namespace catalogue
}  // namespace paceline::cli
