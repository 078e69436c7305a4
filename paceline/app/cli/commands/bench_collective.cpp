// `paceline bench collective`: how long collectives take.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <list>
#include <memory>
#include <optional>

#include "paceline/app/cli/bench/collective_options.h"
#include "paceline/app/cli/bench/collective_report.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/ticker.h"
#include "paceline/app/measure/pin.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/durable_file.h"
#include "paceline/core/base/version.h"
#include "paceline/core/job/use_devices.h"

namespace paceline::cli {
namespace {

// The names that compare() takes: "" is the communicator's own choice.
std::vector<std::string> usable_algorithms(const CollectiveRequest& request,
                                           const Communicator& world) {
  const auto usable = world.algorithms(request.operation, request.dtype);
  std::vector<std::string> chosen;
  for (const std::string& name : request.algorithms) {
    if (name == "automatic" || (name == "all" && usable.empty())) {
      chosen.emplace_back();
    } else if (name == "all") {
      chosen.insert(chosen.end(), usable.begin(), usable.end());
    } else {
      PACELINE_CHECK(
          std::ranges::find(usable, name) != usable.end(),
          "--algorithms: {} does not fit {} of {} on {} ranks{}; choose one of {}", name,
          name_of(request.operation), name_of(request.dtype), world.size(),
          world.determinism() == Determinism::fast ? "" : ", or it needs --determinism fast",
          fmt::join(usable, ", "));
      chosen.push_back(name);
    }
  }
  return chosen;
}

std::size_t resident_megabytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) / 1024;
}

std::string processors_of(const topology::Topology& topology) {
  double all = 0;
  for (const ProcessorPool& pool : topology.pools) all += pool.processors;
  return fmt::format("{:g}", all);
}

// The output of rank 0: lines while it measures, files at the end.
class Report {
 public:
  Report(const CollectiveOptions& given, const CollectiveRequest& request, Job& job)
      : given_(given), quiet_(given.json == "-" || given.html == "-" || given.csv == "-") {
    title_ = fmt::format("{} of {} on {} ranks, {}", name_of(request.operation),
                         name_of(request.dtype), job.world_size(), job.transport());
    const bool fast = job.world().determinism() == Determinism::fast;
    facts_ = {{"determinism", fast ? "fast" : "reproducible"},
              {"buffers", request.device == -1 ? given.buffers : "on devices, " + given.device},
              {"blocks", fmt::format("{}, candidates alternate", request.compare.blocks)},
              {"processors", processors_of(job.world().topology())},
              {"date", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)))},
              {"paceline", kVersion}};
    open_files();
  }

  void add(const std::vector<CollectiveRow>& rows) {
    if (!quiet_ && rows_.empty()) print_head(rows.front().yardstick.has_value());
    for (const CollectiveRow& row : rows) {
      if (!quiet_) fmt::print("{}", table_line(row));
      rows_.push_back(row);
    }
    std::fflush(stdout);
  }

  // Returns the exit code.
  int end() {
    std::int64_t errors = 0;
    for (const CollectiveRow& row : rows_) errors += row.errors;
    write(given_.json, rows_json(rows_));
    write(given_.html, collective_page(title_, facts_, rows_));
    write(given_.csv, rows_csv(rows_, resident_megabytes()));
    if (errors > 0) fmt::print(stderr, "{} elements of the results were wrong\n", errors);
    else if (!quiet_) fmt::print("\nall results were right\n");
    return errors > 0 ? 1 : 0;
  }

 private:
  void print_head(bool with_yardstick) const {
    fmt::print("{}\n", title_);
    for (const auto& [name, value] : facts_) fmt::print("{}: {}\n", name, value);
    fmt::print("\n{}", table_head(with_yardstick));
  }

  void open_files() try {
    for (const std::string* file : {&given_.json, &given_.html, &given_.csv}) {
      if (!file->empty() && *file != "-") files_.emplace_back("report", *file);
    }
  } catch (const Error& error) {
    throw_misuse(error.what());
  }

  void write(const std::string& file, const std::string& text) {
    if (file == "-") return fmt::print("{}", text);
    if (file.empty()) return;
    files_.front().commit(text);
    files_.pop_front();
  }

  const CollectiveOptions& given_;
  const bool quiet_;
  std::string title_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::list<DurableFile> files_;  // in the order in which they are written
  std::vector<CollectiveRow> rows_;
};

// Null on the other ranks. THROWS Error (misuse) on all ranks when rank 0 cannot write its files.
std::unique_ptr<Report> report_of_rank_0(const CollectiveOptions& given,
                                         const CollectiveRequest& request, Job& job) {
  std::unique_ptr<Report> report;
  std::exception_ptr trouble;
  try {
    if (job.rank() == 0) report = std::make_unique<Report>(given, request, job);
  } catch (const Error&) {
    trouble = std::current_exception();
  }
  std::vector<std::uint8_t> failed = {trouble != nullptr};
  job.world().broadcast(buffer_of(failed)).wait();
  if (trouble) std::rethrow_exception(trouble);
  PACELINE_CHECK(failed[0] == 0, "rank 0 cannot write its files");
  return report;
}

std::vector<CollectiveRow> rows_of_job(const measure::Comparison& comparison, Job& job) {
  auto rows = rows_of(comparison, job.world_size(), job.transport());
  for (CollectiveRow& row : rows) {
    if (row.algorithm != "automatic") row.transport = job.transport(/*by_programs=*/true);
    else row.carrier = job.world().carrier(row.operation, row.bytes, row.dtype);
  }
  return rows;
}

// Makes contestants whose buffers lie on a device.
auto maker_on_device(Job& job, int device) {
  if (device == CollectiveRequest::kOfEachRank) device = job.local_rank() % job::count_devices(job);
  return [&job, device](Communicator& group, const measure::Candidate& candidate,
                        MutableBytes memory) {
    return measure::make_device_contestant(job, device, group, candidate, memory);
  };
}

int measure_on(Job& job, const CollectiveOptions& given, CollectiveRequest request) {
  Communicator& world = job.world();
  const auto algorithms = usable_algorithms(request, world);
  std::optional<measure::Pin> pin;
  if (request.bind) pin.emplace(job);
  if (request.device != -1) request.compare.make = maker_on_device(job, request.device);
  const std::unique_ptr<Report> report = report_of_rank_0(given, request, job);
  Ticker ticker(request.progress && job.rank() == 0, request.sizes.size());
  request.compare.on_block = [&](int block, int blocks) { ticker.at_block(block, blocks); };
  for (std::size_t i = 0; i < request.sizes.size(); ++i) {
    ticker.at_size(i, request.sizes[i]);
    std::vector<measure::Candidate> candidates;
    for (const std::string& algorithm : algorithms)
      candidates.push_back({request.operation, algorithm, request.sizes[i], request.dtype});
    const auto comparison = measure::compare(job, world, candidates, request.compare);
    if (report) report->add(rows_of_job(comparison, job));
  }
  return report ? report->end() : 0;
}

int bench_collective_main(const std::vector<std::string>& arguments) {
  CollectiveOptions line;
  if (!parse(line.app, arguments)) return 0;
  const CollectiveRequest request = checked(line);
  line.ranks.bind = request.bind;
  const auto measure = [&](Job& job, const RanksOptions& ranks) {
    CollectiveRequest own = request;
    own.progress = ranks.progress;
    return measure_on(job, line, own);
  };
  return run_on_ranks(line.ranks, "collective", arguments, measure);
}

}  // namespace

namespace catalogue {

Subcommand bench_collective() {
  return {.name = "collective",
          .summary = "time and bandwidth of collectives, by size and algorithm",
          .main = bench_collective_main,
          .described = described<CollectiveOptions>,
          .group = "bench"};
}

}  // namespace catalogue
}  // namespace paceline::cli
