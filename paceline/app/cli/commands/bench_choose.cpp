// `paceline bench choose`: whether the algorithms that the model chooses are the fastest.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "paceline/app/cli/bench/choice_report.h"
#include "paceline/app/cli/bench/collective_options.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/ticker.h"
#include "paceline/app/measure/pin.h"
#include "paceline/core/base/durable_file.h"

namespace paceline::cli {
namespace {

constexpr const char* kChooseAbout =
    "Compares the choice of algorithms with measurements: for each size it times a call that "
    "names no algorithm, and every\n"
    "algorithm that could have carried it, in alternating blocks, beside the model's forecasts.";

constexpr const char* kChooseMore = R"(Examples:
  paceline bench choose --operation all_reduce --ranks 2
  paceline bench choose --ranks 4 --sizes 4..16MiB --determinism fast --json choice.json
  PACELINE_PROFILE=here.json paceline bench choose --ranks 2 --transport tcp

A ratio compares with the fastest algorithm: it is the median of the blocks' ratios. The ratio of the choice ("board": shared
memory, without an algorithm) compares each block with the algorithm that was the fastest in all other blocks; it has its
spread (10 % to 90 %), and its regret is the ratio less one.
Choices follow the profile that PACELINE_PROFILE names (paceline bench calibrate writes one), else the built-in prices.

Exit codes: 0 done; 1 a result was wrong, or a rank failed; 2 wrong usage; else as `paceline run`
)";

struct ChooseOptions {
  ChooseOptions() : app(kChooseAbout, "paceline bench choose") {
    const auto add = adder(app, kChooseMore);
    add("--operation", as.operation, "NAME",
        "one of those of bench collective, but barrier (all_reduce)");
    add_ranks_options(app, as.ranks);
    add("--sizes", as.sizes, "LIST", "bytes, as 4..256MiB or 4,64KiB (4..64MiB)");
    add("--dtype", as.dtype, "NAME", "f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool (f32)");
    add("--buffers", as.buffers, "NAME",
        "allocate: shared memory from Job::allocate; ordinary: the heap (allocate)");
    add("--blocks", as.blocks, "N", "blocks of each candidate (9)");
    add("--operations", as.operations, "N",
        "operations in a block (20, more of short ones, fewer of very long ones)");
    add("--json", as.json, "FILE", "write the figures as JSON; - is stdout, without the table");
  }

  CLI::App app;
  CollectiveOptions as;  // the measurement's options
};

CollectiveRequest checked(const ChooseOptions& given) {
  CollectiveRequest request = checked(given.as);
  if (request.operation == Operation::barrier)
    throw_misuse("--operation barrier: it has no algorithms to choose from; name another one");
  return request;
}

int choose_on(Job& job, const std::string& json, CollectiveRequest request) {
  Communicator& world = job.world();
  const bool reports = job.rank() == 0, shows = reports && json != "-";
  std::unique_ptr<DurableFile> file;
  on_rank_0(job, [&] {
    if (!json.empty() && json != "-") file = std::make_unique<DurableFile>("report", json);
  });
  const measure::Pin pin(job);
  const auto named = world.algorithms(request.operation, request.dtype);
  std::vector<ChoiceCell> cells;
  std::int64_t errors = 0;
  if (shows) fmt::print("{}", choice_head());
  Ticker ticker(request.progress && reports, request.sizes.size());
  request.compare.on_block = [&](int block, int blocks) { ticker.at_block(block, blocks); };
  for (const std::size_t bytes : request.sizes) {
    ticker.at_size(cells.size(), bytes);
    auto forecasts = world.forecasts(request.operation, bytes, request.dtype);
    const std::string chosen(forecasts.front().carrier);
    std::erase_if(forecasts, [&](const Forecast& one) {
      return std::ranges::find(named, one.carrier) == named.end();
    });
    std::vector<measure::Candidate> candidates = {{request.operation, "", bytes, request.dtype}};
    for (const Forecast& one : forecasts)
      candidates.push_back({request.operation, std::string(one.carrier), bytes, request.dtype});
    const auto comparison = measure::compare(job, world, candidates, request.compare);
    for (const measure::Measurement& one : comparison.candidates) errors += one.errors;
    cells.push_back(cell_of(chosen, forecasts, comparison, world.size(), job.transport()));
    if (shows) fmt::print("{}", choice_lines(cells.back()));
    std::fflush(stdout);
  }
  if (!reports) return 0;
  if (json == "-") fmt::print("{}", choice_json(cells));
  if (file) file->commit(choice_json(cells));
  if (shows) fmt::print("\n{}", choice_verdict(cells));
  if (errors > 0) fmt::print(stderr, "{} elements of the results were wrong\n", errors);
  return errors > 0 ? 1 : 0;
}

int bench_choose_main(const std::vector<std::string>& arguments) {
  ChooseOptions line;
  if (!parse(line.app, arguments)) return 0;
  const CollectiveRequest request = checked(line);
  return run_on_ranks(line.as.ranks, "choose", arguments, [&](Job& job, const RanksOptions& ranks) {
    CollectiveRequest own = request;
    own.progress = ranks.progress;
    return choose_on(job, line.as.json, own);
  });
}

}  // namespace

namespace catalogue {

Subcommand bench_choose() {
  return {.name = "choose",
          .summary = "whether the chosen algorithms are the fastest",
          .main = bench_choose_main,
          .described = described<ChooseOptions>,
          .group = "bench"};
}

}  // namespace catalogue
}  // namespace paceline::cli
