// `paceline bench server`: how fast the servers of a job are, beside the workers' own all_reduce,
// and how many rows of sparse tables a second they serve.
#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "paceline/app/cli/bench/server_bench.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/ticker.h"
#include "paceline/app/measure/pin.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/durable_file.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/server/server.h"

namespace paceline::cli {
namespace {

std::unique_ptr<measure::Contestant> contestant_of(Job& job, Communicator& group,
                                                   const measure::Candidate& candidate,
                                                   MutableBytes memory) {
  if (candidate.algorithm.empty()) return measure::make_contestant(group, candidate, memory);
  return measure::make_server_contestant(job, candidate, memory);
}

// Rank 0 prints it, and writes a file at the end.
class ServerReport {
 public:
  ServerReport(const std::string& json, ServedJob job) : json_(json), job_(std::move(job)) {
    if (!json.empty() && json != "-") file_.emplace("report", json);
    print(fmt::format(
        "{} workers, {} servers ({}{}), {}\n\n", job_.workers, job_.servers, job_.placement,
        job_.replicas > 1 ? fmt::format(", {} replicas", job_.replicas) : "", job_.transport));
  }

  void add(const std::vector<ServerRow>& rows) {
    if (rows_.empty()) print(server_head());
    for (const ServerRow& row : rows) print(server_line(row));
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }

  void add(const measure::ClockOptions& options, const measure::ClockFigures& figures) {
    if (clocks_.empty()) print((rows_.empty() ? "" : "\n") + clock_head());
    const measure::ClockFigures& first = clocks_.empty() ? figures : clocks_.front().figures;
    clocks_.push_back({options.synchrony, figures,
                       first.clocks_per_second / figures.clocks_per_second,
                       measure::forecast_clocks_per_second(options, job_.workers, job_.servers)});
    print(clock_line(clocks_.back()));
  }

  void add(const SparseRow& row) {
    if (sparse_.empty()) print(sparse_head());
    sparse_.push_back(row);
    print(sparse_line(row));
  }

  void add(const PauseRow& row) {
    if (pauses_.empty()) print(pause_head());
    pauses_.push_back(row);
    print(pause_line(row));
  }

  // Returns the exit code.
  int end() {
    const std::string text = server_json(job_, rows_, clocks_, sparse_, pauses_);
    if (json_ == "-") fmt::print("{}", text);
    if (file_) file_->commit(text);
    std::int64_t errors = 0;
    for (const ServerRow& row : rows_) errors += row.errors;
    if (errors > 0) fmt::print(stderr, "{} elements of the results were wrong\n", errors);
    return errors > 0 ? 1 : 0;
  }

 private:
  void print(const std::string& text) const {
    if (json_ == "-") return;
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  const std::string json_;
  const ServedJob job_;
  std::optional<DurableFile> file_;
  std::vector<ServerRow> rows_;
  std::vector<ClockRow> clocks_;
  std::vector<SparseRow> sparse_;
  std::vector<PauseRow> pauses_;
};

int measure_servers(Job& job, const ServerBenchOptions& given, const ServerBenchRequest& request,
                    bool progress) {
  PACELINE_CHECK(job.servers() > 0,
                 "this job has no servers to measure; start some, as in `paceline bench server "
                 "--ranks 4 --servers 2`");
  const int replicas = job::replicas_of(job);
  PACELINE_CHECK(request.pauses.empty() || replicas > 1,
                 "--kill-every: the job ends with a server that alone keeps a range; start it with "
                 "--replicas 2");
  for (const measure::ClockOptions& clocks : request.clocks) {
    const auto choice = server::parse_consistency(clocks.synchrony).value();
    server::check_pacing(server::pacing_of(choice), job.world_size()).value();
  }
  const measure::Pin pin(job);
  std::optional<ServerReport> report;
  on_rank_0(job, [&] {
    report.emplace(given.json,
                   ServedJob{job.world_size(), job.servers(), replicas, job.transport(),
                             given.ranks.servers.hosts.empty() ? "colocated" : "dedicated"});
  });
  Ticker ticker(progress && job.rank() == 0, request.sizes.size());
  measure::CompareOptions compare{.blocks = request.blocks};
  compare.on_block = [&](int block, int blocks) { ticker.at_block(block, blocks); };
  compare.make = [&](Communicator& group, const measure::Candidate& candidate,
                     MutableBytes memory) { return contestant_of(job, group, candidate, memory); };
  for (std::size_t i = 0; i < request.sizes.size(); ++i) {
    ticker.at_size(i, request.sizes[i]);
    std::vector<measure::Candidate> candidates;
    for (const std::string& operation : request.operations) {
      if (operation == "push_pull" && replicas > 1) continue;  // its sums lie on one server each
      candidates.push_back({Operation::all_reduce, operation, request.sizes[i], request.dtype});
    }
    const auto comparison = measure::compare(job, job.world(), candidates, compare);
    if (report) report->add(server_rows(comparison));
  }
  for (const measure::ClockOptions& clocks : request.clocks) {
    const measure::ClockFigures figures = measure::clocks_of_workers(job, clocks);
    if (report) report->add(clocks, figures);
  }
  for (const measure::SparseOptions& sparse : request.sparse) {
    SparseRow row{.rule = sparse.rule, .ids = sparse.ids, .rows = sparse.rows};
    on_rank_0(job, [&] { row.bare = measure::bare_sparse_rates(sparse); });
    row.rates = measure::sparse_rates_of_workers(job, sparse);
    if (report) report->add(row);
  }
  for (const measure::PauseOptions& pause : request.pauses) {
    const PauseRow row{pause.bytes, measure::pauses_of_workers(job, pause)};
    if (report) report->add(row);
  }
  return report ? report->end() : 0;
}

int bench_server_main(const std::vector<std::string>& arguments) {
  ServerBenchOptions line;
  if (!parse(line.app, arguments)) return 0;
  const ServerBenchRequest request = checked(line);
  if (!request.pauses.empty() && !line.ranks.servers.replicas.empty())
    line.ranks.servers.restarts = "1000";
  return run_on_ranks(line.ranks, "server", arguments, [&](Job& job, const RanksOptions& ranks) {
    return measure_servers(job, line, request, ranks.progress);
  });
}

}  // namespace

namespace catalogue {

Subcommand bench_server() {
  return {.name = "server",
          .summary = "the servers' sums, pushes and pulls, beside the workers' all_reduce",
          .main = bench_server_main,
          .described = described<ServerBenchOptions>,
          .group = "bench"};
}

}  // namespace catalogue
}  // namespace paceline::cli
