// `paceline bench calibrate`: measures the costs of links and cores here, as a profile.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "paceline/app/cli/bench/bench_ranks.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/measure/calibration.h"
#include "paceline/app/measure/pin.h"
#include "paceline/core/base/durable_file.h"
#include "paceline/core/membership/environment/variables.h"

namespace paceline::cli {
namespace {

constexpr const char* kCalibrateAbout =
    "Measures what messages, copies and sums cost between these ranks, and writes it as a profile.";

constexpr const char* kCalibrateMore = R"(Examples:
  paceline bench calibrate --ranks 2 --output here.json
  paceline bench calibrate --ranks 4 --hosts a:2,b:2 --output cluster.json
  PACELINE_PROFILE=cluster.json paceline run --hosts a:2,b:2 -- ./train

Each kind of link between the ranks is measured on two of them: memory and loopback need two ranks on one host (loopback:
--transport tcp), network needs two hosts. Other kinds keep their built-in costs. In a run only rank 0
reads PACELINE_PROFILE; this command ignores it.

Exit codes: 0 done; 1 a rank failed; 2 wrong usage; else as `paceline run`
)";

struct CalibrateOptions {
  CalibrateOptions() : app(kCalibrateAbout, "paceline bench calibrate") {
    app.get_formatter()->column_width(34);
    app.footer(kCalibrateMore);
    add_ranks_options(app, ranks);
    app.add_option("--output", output, "file for the profile; - is stdout (-)")->type_name("FILE");
    app.add_option("--blocks", blocks, "blocks of each measurement (7)")->type_name("N");
    app.add_option("--operations", operations,
                   "operations in a block (default: that of bench collective)")
        ->type_name("N");
  }

  CLI::App app;
  RanksOptions ranks;
  std::string output = "-", blocks = "7", operations;
};

measure::CompareOptions checked(const CalibrateOptions& given) {
  constexpr int kMost = 100'000;
  measure::CompareOptions options{.blocks = parse_count("--blocks", given.blocks, 1, kMost)};
  if (!given.operations.empty())
    options.operations = parse_count("--operations", given.operations, 1, kMost);
  return options;
}

std::string table(const measure::Calibration& found) {
  const topology::Profile& profile = found.profile;
  std::string text = fmt::format("{:<10} {:>22} {:>12} {:>12}\n", "link", "bytes of a message",
                                 "alpha us", "GB/s");
  for (const topology::LinkClass link : found.measured) {
    for (std::size_t i = 0; i < profile.link(link).lines.size(); ++i) {
      const topology::Line& line = profile.link(link).lines[i];
      const std::string lengths = i < topology::kLineEnds.size()
                                      ? fmt::format("up to {}", size_text(topology::kLineEnds[i]))
                                      : "more";
      text += fmt::format("{:<10} {:>22} {:>12.2f} {:>12.2f}\n", name_of(link), lengths,
                          line.alpha * 1e6, 1e-9 / line.beta);
    }
  }
  return text + fmt::format("reduced {:.2f} GB/s, copied {:.2f} GB/s, stored {:.2f} GB/s\n",
                            1e-9 / profile.gamma, 1e-9 / profile.copy, 1e-9 / profile.store);
}

int calibrate_on(Job& job, const CalibrateOptions& given, const measure::CompareOptions& options,
                 bool progress) {
  const bool reports = job.rank() == 0;
  std::unique_ptr<DurableFile> file;
  on_rank_0(job, [&] {
    if (given.output != "-") file = std::make_unique<DurableFile>("profile", given.output);
  });
  const measure::Pin pin(job);
  const auto found = measure::calibrate(job, options, [&](const std::string& next) {
    if (progress && reports) fmt::print(stderr, "measuring {}\n", next);
  });
  if (!reports) return 0;
  const std::string json = to_json(found.profile);
  if (!file) {
    fmt::print("{}", json);
    return 0;
  }
  file->commit(json);
  fmt::print("{}\nwritten to {}; used with PACELINE_PROFILE={}\n", table(found), given.output,
             given.output);
  return 0;
}

int bench_calibrate_main(const std::vector<std::string>& arguments) {
  CalibrateOptions line;
  if (!parse(line.app, arguments)) return 0;
  const measure::CompareOptions options = checked(line);
  ::unsetenv(membership::variable::kProfile);  // it may name the file that this command writes
  return run_on_ranks(line.ranks, "calibrate", arguments, [&](Job& job, const RanksOptions& ranks) {
    return calibrate_on(job, line, options, ranks.progress);
  });
}

}  // namespace

namespace catalogue {

Subcommand bench_calibrate() {
  return {.name = "calibrate",
          .summary = "what links cost here, for the choice of algorithms",
          .main = bench_calibrate_main,
          .described = described<CalibrateOptions>,
          .group = "bench"};
}

}  // namespace catalogue
}  // namespace paceline::cli
