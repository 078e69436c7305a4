// `paceline top`: the ranks of this host, live.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/ranks_table.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/deadline.h"

namespace paceline::cli {
namespace {

constexpr const char* kTopAbout =
    "Shows the ranks of this host: how fast they are, what they wait for, and which rank holds "
    "the others up (*).\n"
    "It finds the ranks of all your jobs, under every launcher, also ranks that hang or are "
    "stopped.";

constexpr const char* kTopMore =
    R"(Columns: RANK, s0 and so on for servers; CPU processors in use; WAITS share of the time in which a thread waited for an operation; STEP, SAMPLES/S and
LOSS as the program reports them (Job::report). STATE has the device in whose memory the rank's buffers lie, the stages of a pipeline that the rank computes, and its bubble: the share of its
time in which it waited for other stages.

Examples:
  paceline top                     live until Ctrl-C
  paceline top --once              one table, for a terminal that scrolls or a log
  paceline top --json --once       one line of JSON
  ssh node7 paceline top --once    another host of a job

Exit codes: 0 done; 1 with --once: no rank runs here; 2 wrong usage; 130 Ctrl-C
)";

struct TopLine {
  TopLine() {
    app.get_formatter()->column_width(24);
    app.footer(kTopMore);
    app.add_option("--job", job, "only this job")->type_name("ID");
    app.add_option("--interval", interval, "time between two tables (1s)")->type_name("TIME");
    app.add_flag("--once", once, "print one table and end");
    app.add_flag("--json", json, "print lines of JSON instead of tables");
  }
  CLI::App app{kTopAbout, "paceline top"};
  std::string job, interval = "1s";
  bool once = false, json = false;
};

Look look(const std::string& job) {
  const std::int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  return {observe::ranks_on_this_host(job), now};
}

void show(const TopLine& line, const Look& before, const Look& now, bool live) {
  if (line.json) {
    fmt::print("{}", ranks_json(before, now));
  } else {
    constexpr std::size_t kNoLimit = 10'000;  // nothing is cut
    constexpr const char* kHomeAndClear = "\033[H\033[2J";
    const std::string table = now.ranks.empty()
                                  ? "no rank of yours runs on this host\n"
                                  : ranks_table(before, now, terminal_columns(kNoLimit));
    fmt::print("{}{}", live ? kHomeAndClear : "", table);
  }
  std::fflush(stdout);
}

int top_main(const std::vector<std::string>& arguments) {
  TopLine line;
  if (!parse(line.app, arguments)) return 0;
  const auto interval = parse_duration("--interval", line.interval);
  const bool live = !line.once && !line.json && ::isatty(STDOUT_FILENO) == 1;
  Look before = look(line.job);
  while (true) {
    std::this_thread::sleep_for(interval);
    Look now = look(line.job);
    show(line, before, now, live);
    if (line.once) return now.ranks.empty() ? 1 : 0;
    if (std::ferror(stdout) != 0) return 1;  // the reader has gone
    before = std::move(now);
  }
}

}  // namespace

namespace catalogue {

Subcommand top() {
  return {.name = "top",
          .summary = "show live what the ranks of this host do",
          .main = top_main,
          .described = described<TopLine>,
          .place = 80};
}

}  // namespace catalogue
}  // namespace paceline::cli
