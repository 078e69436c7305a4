#include "paceline/app/cli/bench/server_bench.h"

#include <fmt/format.h>

#include <algorithm>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/server/server.h"

namespace paceline::cli {
namespace {

constexpr const char* kAbout =
    "Measures the servers of a job: sums that they form (push_pull) beside the workers' own "
    "all_reduce,\n"
    "updates of a table (push) and reads of it (pull), by size; and with --synchrony how many "
    "clocks a second\n"
    "workers go under a model of consistency, also when some are slow. With --sparse instead rows "
    "a "
    "second of\n"
    "sparse tables, by ids in a request and rule; with --kill-every the longest pause of workers "
    "whose\n"
    "servers are killed.";

constexpr const char* kMore = R"(Examples:
  paceline bench server --ranks 4 --servers 2
  paceline bench server --hosts a,b,c,d --servers 4 --server-hosts e,f,g,h --sizes 64MiB --json servers.json
  paceline bench server --ranks 4 --servers 1 --slow 0:5 --synchrony bsp ssp:staleness=3 backup_workers:spare=1 asp
  paceline bench server --ranks 4 --servers 2 --sparse --rows 10000000 --ids 100,1000
  paceline bench server --ranks 3 --servers 3 --replicas 2 --kill-every 0.5 --sizes 4MiB
  paceline run -n 4 --servers 2 -- paceline bench server        takes part as a worker

Operations alternate in blocks in the same processes, each lasts as long as its slowest worker, and results are checked.
"of all_reduce" is the median of the blocks' ratios of rates. The table of push and pull is under asp with the rule add.
A clock is a wait of --pace milliseconds, a push and a pull of 256 KiB; "time a clock" is relative to the first synchrony;
"forecast" is what the same machines do in virtual time, where messages take none.
Rows of sparse tables have 64 bytes. "bare" is the table alone, in the memory of one process: the same requests to as many rows.
A step under --kill-every is a push and a pull of all bytes under asp; "before" is the longest one before the first kill, "longest" that of all workers,
"median" of the longest one after each kill. Killed are servers on the host of rank 0, for ten times TIME.

Exit codes: 0 done; 1 a result was wrong, or a process failed; 2 wrong usage; else as `paceline run`
)";

std::string rate_text(double rate, double bare) {
  return fmt::format("{:>10.3f} {:>8.3f} {:>7}", rate / 1e6, bare / 1e6,
                     bare > 0 ? fmt::format("{:.2f} x", rate / bare) : "");
}

std::vector<measure::SparseOptions> sparse_of(const ServerBenchOptions& given) {
  constexpr int kMostRows = 2'000'000'000, kMostIds = 10'000'000;
  std::vector<measure::SparseOptions> all;
  measure::SparseOptions one;
  one.rows = static_cast<std::size_t>(parse_count("--rows", given.rows, 1, kMostRows));
  one.seconds = parse_positive("--seconds", given.seconds);
  for (const std::string& rule : given.rules) {
    (void)server::parse_sparse_rule(rule).value();
    one.rule = rule;
    for (const std::string& ids : parse_list("--ids", given.ids)) {
      one.ids = static_cast<std::size_t>(parse_count("--ids", ids, 1, kMostIds));
      all.push_back(one);
    }
  }
  return all;
}

int parse_replicas(const ServerBenchOptions& given) {
  const std::string& text = given.ranks.servers.replicas;
  return text.empty() ? 1 : parse_count("--replicas", text, 1, membership::kMostReplicas);
}

measure::Slowness slowness_of(const std::string& text) {
  const auto parts = split(text, ':');
  PACELINE_CHECK(parts.size() == 2,
                 "--slow: '{}' is not RANK:FACTOR, such as 0:5, or drawn:FACTOR, such as drawn:5",
                 text);
  constexpr int kMostRanks = 4096;
  return {.rank = parts[0] == "drawn" ? -1 : parse_count("--slow", parts[0], 0, kMostRanks - 1),
          .factor = parse_positive("--slow", parts[1])};
}

}  // namespace

double ServerRow::gigabytes_per_second() const {
  return p50_us > 0 ? static_cast<double>(bytes) / p50_us / 1e3 : 0;
}

std::vector<ServerRow> server_rows(const measure::Comparison& comparison) {
  const auto& all = comparison.candidates;
  const auto own = std::ranges::find_if(
      all, [](const measure::Measurement& one) { return one.candidate.algorithm.empty(); });
  std::vector<ServerRow> rows;
  for (const measure::Measurement& one : all) {
    const std::string& name = one.candidate.algorithm;
    ServerRow row{.operation = name.empty() ? "all_reduce" : name,
                  .bytes = one.candidate.bytes,
                  .p50_us = measure::quantile(one.seconds, 0.5) * 1e6,
                  .errors = one.errors};
    if (own != all.end() && !name.empty())
      row.ratio = measure::quantile(measure::ratios(*own, one), 0.5);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string server_head() {
  return fmt::format("{:>11}  {:<10} {:>10} {:>8} {:>14} {:>7}\n", "bytes", "operation", "p50 us",
                     "GB/s", "of all_reduce", "errors");
}

std::string server_line(const ServerRow& row) {
  return fmt::format("{:>11}  {:<10} {:>10.1f} {:>8.3f} {:>14} {:>7}\n", row.bytes, row.operation,
                     row.p50_us, row.gigabytes_per_second(),
                     row.ratio > 0 ? fmt::format("{:.2f} x", row.ratio) : "", row.errors);
}

std::string clock_head() {
  return fmt::format("{:<40} {:>15} {:>9} {:>14} {:>20}\n", "synchrony", "clocks a second",
                     "forecast", "time a clock", "staleness mean, most");
}

std::string clock_line(const ClockRow& row) {
  return fmt::format("{:<40} {:>15.2f} {:>9.2f} {:>12.2f} x {:>14.2f} {:>5g}\n", row.synchrony,
                     row.figures.clocks_per_second, row.forecast, row.time_of_first,
                     row.figures.staleness_mean, row.figures.staleness_max);
}

std::string sparse_head() {
  return fmt::format("{:<24} {:>7} {:>10} {:>10} {:>8} {:>7} {:>10} {:>8} {:>7}\n", "rule", "ids",
                     "rows", "M pulls/s", "bare", "", "M pushes/s", "bare", "");
}

std::string sparse_line(const SparseRow& row) {
  return fmt::format("{:<24} {:>7} {:>10} {} {}\n", row.rule, row.ids, row.rows,
                     rate_text(row.rates.pulled, row.bare.pulled),
                     rate_text(row.rates.pushed, row.bare.pushed));
}

std::string pause_head() {
  return fmt::format("{:>11} {:>7} {:>14} {:>12} {:>12} {:>12}\n", "bytes", "kills",
                     "steps a second", "before, ms", "longest, ms", "median, ms");
}

std::string pause_line(const PauseRow& row) {
  const measure::PauseFigures& figures = row.figures;
  return fmt::format("{:>11} {:>7} {:>14.1f} {:>12.1f} {:>12.1f} {:>12.1f}\n", row.bytes,
                     figures.kills, figures.steps_per_second, 1e3 * figures.undisturbed,
                     1e3 * figures.longest, 1e3 * figures.median);
}

std::string server_json(const ServedJob& job, const std::vector<ServerRow>& rows,
                        const std::vector<ClockRow>& clocks, const std::vector<SparseRow>& sparse,
                        const std::vector<PauseRow>& pauses) {
  const auto described = [&](nlohmann::ordered_json object) {
    object["workers"] = job.workers;
    object["servers"] = job.servers;
    object["replicas"] = job.replicas;
    object["placement"] = job.placement;
    object["transport"] = job.transport;
    return object.dump();
  };
  std::vector<std::string> lines;
  for (const ServerRow& row : rows) {
    nlohmann::ordered_json object = {{"operation", row.operation},
                                     {"bytes", row.bytes},
                                     {"p50_us", row.p50_us},
                                     {"GBps", row.gigabytes_per_second()},
                                     {"errors", row.errors}};
    if (row.ratio > 0) object["ratio_to_all_reduce"] = row.ratio;
    lines.push_back(described(std::move(object)));
  }
  for (const ClockRow& row : clocks) {
    lines.push_back(described({{"operation", "clock"},
                               {"synchrony", row.synchrony},
                               {"clocks_per_second", row.figures.clocks_per_second},
                               {"forecast", row.forecast},
                               {"staleness_mean", row.figures.staleness_mean},
                               {"staleness_max", row.figures.staleness_max},
                               {"time_to_first", row.time_of_first}}));
  }
  for (const SparseRow& row : sparse) {
    lines.push_back(described({{"operation", "sparse"},
                               {"rule", row.rule},
                               {"ids", row.ids},
                               {"rows", row.rows},
                               {"pulled_per_second", row.rates.pulled},
                               {"bare_pulled_per_second", row.bare.pulled},
                               {"pushed_per_second", row.rates.pushed},
                               {"bare_pushed_per_second", row.bare.pushed}}));
  }
  for (const PauseRow& row : pauses) {
    lines.push_back(described({{"operation", "pause"},
                               {"bytes", row.bytes},
                               {"kills", row.figures.kills},
                               {"steps_per_second", row.figures.steps_per_second},
                               {"undisturbed_ms", 1e3 * row.figures.undisturbed},
                               {"longest_ms", 1e3 * row.figures.longest},
                               {"median_ms", 1e3 * row.figures.median}}));
  }
  return fmt::format("[{}]\n", fmt::join(lines, ",\n "));
}

ServerBenchOptions::ServerBenchOptions() : app(kAbout, "paceline bench server") {
  const auto add = adder(app, kMore);
  add_ranks_options(app, ranks);
  add_server_options(app, ranks);
  add("--operations", operations, "LIST", "all_reduce, push_pull, push, pull (all of them)");
  add("--sizes", sizes, "LIST", "bytes, as 4..256MiB or 4,64KiB (4KiB,4MiB,64MiB)");
  add("--dtype", dtype, "NAME", "f32 or f64 (f32)");
  add("--blocks", blocks, "N", "blocks of each operation (9)");
  app.add_option("--synchrony", synchronies,
                 "models of consistency whose clocks are measured: bsp, ssp:staleness=3, ..")
      ->type_name("NAME..");
  add("--pace", pace, "MS", "milliseconds that a clock takes at least (20)");
  add("--slow", slow, "RANK:FACTOR",
      "this worker takes FACTOR times as long; drawn:FACTOR: another one in each clock");
  add("--clocks", clocks, "N", "clocks of each worker (50)");
  app.add_flag("--sparse", sparse, "measure sparse tables instead");
  add("--rows", rows, "N", "with --sparse: rows that are stored before (1000000)");
  add("--ids", ids, "LIST", "with --sparse: ids in a request (1000)");
  app.add_option("--rules", rules, "with --sparse: rules (adagrad adagrad:per=row)")
      ->type_name("NAME..");
  add("--seconds", seconds, "S", "with --sparse: of pulls, and of pushes (1)");
  add("--kill-every", kill_every, "TIME",
      "instead kill a server each so many seconds, and tell how long workers stood still; with "
      "--replicas 2 or 3");
  add("--json", json, "FILE", "write the figures as JSON; - is stdout, without the table");
}

ServerBenchRequest checked(const ServerBenchOptions& given) {
  constexpr int kMostBlocks = 100'000, kMostClocks = 1'000'000;
  ServerBenchRequest request;
  if (given.sparse) {
    PACELINE_CHECK(given.synchronies.empty() && given.app.count("--operations") == 0,
                   "--sparse: it measures sparse tables alone; leave out --operations and "
                   "--synchrony");
    request.sparse = sparse_of(given);
    return request;
  }
  const bool is_replicated = parse_replicas(given) > 1;
  for (const std::string& name : parse_list("--operations", given.operations)) {
    if (name == "push_pull" && is_replicated) {
      PACELINE_CHECK(given.app.count("--operations") == 0,
                     "--operations: push_pull's sums lie on one server each; leave it out with "
                     "--replicas {}",
                     given.ranks.servers.replicas);
      continue;
    }
    parse_choice("--operations", name, {"all_reduce", "push_pull", "push", "pull"});
    request.operations.push_back(name == "all_reduce" ? "" : name);
  }
  request.sizes = parse_sizes("--sizes", given.sizes);
  if (!given.kill_every.empty()) {
    PACELINE_CHECK(given.synchronies.empty() && given.app.count("--operations") == 0,
                   "--kill-every: it measures steps alone; leave out --operations and "
                   "--synchrony");
    const double every = parse_positive("--kill-every", given.kill_every);
    for (const std::size_t bytes : request.sizes)
      request.pauses.push_back({.bytes = bytes, .kill_every = every, .seconds = 10 * every});
    request.sizes.clear();
    return request;
  }
  request.dtype =
      parse_choice("--dtype", given.dtype, {"f32", "f64"}) == "f32" ? Dtype::f32 : Dtype::f64;
  request.blocks = parse_count("--blocks", given.blocks, 1, kMostBlocks);
  measure::ClockOptions clock{.pace = parse_positive("--pace", given.pace) / 1e3,
                              .clocks = parse_count("--clocks", given.clocks, 1, kMostClocks)};
  if (!given.slow.empty()) clock.slow = slowness_of(given.slow);
  PACELINE_CHECK(given.slow.empty() || !given.synchronies.empty(),
                 "--slow: it slows the clocks of --synchrony; give one, as in --synchrony bsp asp");
  for (const std::string& synchrony : given.synchronies) {
    (void)server::parse_consistency(synchrony).value();
    clock.synchrony = synchrony;
    request.clocks.push_back(clock);
  }
  return request;
}

}  // namespace paceline::cli
