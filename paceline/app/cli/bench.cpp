#include "paceline/app/cli/bench.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/app/cli/bench/bench_calibrate.h"
#include "paceline/app/cli/bench/bench_choose.h"
#include "paceline/app/cli/bench/bench_collective.h"
#include "paceline/app/cli/bench/bench_schedule.h"

namespace paceline::cli {
namespace {

constexpr const char* kBenchAbout = "Measures what this machine, or these hosts, can do.";

std::vector<Subcommand> benches() {
  return {bench_calibrate(), bench_choose(), bench_collective(), bench_schedule()};
}

std::string bench_help() {
  return fmt::format(
      "{}\n"
      "Usage: paceline bench SUBCOMMAND [options]\n\n"
      "Subcommands:\n{}"
      "\n`paceline bench SUBCOMMAND --help` tells more.\n\n"
      "Example:\n"
      "  paceline bench collective --ranks 2 --algorithms all --html collectives.html\n",
      kBenchAbout, list_of(benches()));
}

std::shared_ptr<const CLI::App> described_bench() {
  const auto app = std::make_shared<CLI::App>(kBenchAbout, "paceline bench");
  for (const Subcommand& one : benches())
    app->add_subcommand(std::const_pointer_cast<CLI::App>(one.described()));
  return app;
}

int bench_main(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    return usage_error("paceline bench",
                       "which measurement? As in `paceline bench collective --ranks 2`");
  if (arguments.front() == "-h" || arguments.front() == "--help") {
    fmt::print("{}", bench_help());
    return 0;
  }
  return run_one_of(benches(), "paceline bench", {"--help"}, arguments);
}

}  // namespace

Subcommand bench() {
  return {"bench", "measure: how fast collectives are, and which is best", bench_main,
          described_bench};
}

}  // namespace paceline::cli
