#include <fmt/format.h>

#include <cstdio>

#include "bench/survey/survey_program.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/core/base/result.h"

int main(int argc, char** argv) {
  try {
    return paceline::survey::survey_main({argv + 1, argv + argc});
  } catch (const paceline::Error& error) {
    if (error.fault() == paceline::Fault::misuse)
      return paceline::cli::usage_error("bench_survey", error.what());
    fmt::print(stderr, "bench_survey: {}\n", error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_survey: {}\n", error.what());
  }
  return paceline::cli::kFailed;
}
