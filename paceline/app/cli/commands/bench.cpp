#include "paceline/app/cli/commands/commands.h"
#include "paceline/app/cli/shared/subcommand_group.h"

namespace paceline::cli {
namespace {

std::vector<Subcommand> benches() {
  return {bench_calibrate(), bench_choose(),   bench_collective(), bench_layouts(),
          bench_pipeline(),  bench_schedule(), bench_server()};
}

constexpr SubcommandGroup kBench = {
    .who = "paceline bench",
    .about = "Measures what this machine, or these hosts, can do.",
    .question = "which measurement? As in `paceline bench collective --ranks 2`",
    .example = "paceline bench collective --ranks 2 --algorithms all --html collectives.html",
    .members = benches};

}  // namespace

Subcommand bench() {
  return {"bench", "measure: how fast collectives are, and which is best",
          [](const std::vector<std::string>& arguments) { return run_group(kBench, arguments); },
          [] { return described_group(kBench); }};
}

}  // namespace paceline::cli
