#include "paceline/app/cli/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/app/cli/quantities.h"
#include "paceline/app/cli/split_command.h"
#include "paceline/app/launch/launch.h"
#include "paceline/core/base/check.h"

namespace paceline::cli {
namespace {

constexpr int kMostProcesses = 4096;

constexpr const char* kAbout =
    "Starts N processes of a program on this host, as one job: each is a rank, knows the others, "
    "and trains with them.\n"
    "Their lines come out whole, with \"[rank] \" before each; stdin goes to rank 0 alone.";

constexpr const char* kMore = R"(Examples:
  paceline run -n 2 build/release/bin/fashion_mnist --model cnn
  paceline run -n 4 --timeout 10min -- python3 train.py --epochs 3
  PACELINE_RUN_NP=2 PACELINE_RUN_GRACE=5s paceline run ./train

Every option is also read from PACELINE_RUN_<OPTION>: --operation-timeout from PACELINE_RUN_OPERATION_TIMEOUT.

What a program finds in its environment:
  PACELINE_RANK, PACELINE_WORLD_SIZE, PACELINE_LOCAL_RANK, ...   read by paceline::init()
  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, ...    the same as torchrun names it
  OMP_NUM_THREADS                                                cores / N, unless it was set
  PACELINE_TRANSPORT, PACELINE_DETERMINISM, PACELINE_OPERATION_TIMEOUT, PACELINE_LOG pass through as you set them.

When a process fails, the others are told why, have --grace to end by themselves, then get SIGTERM, and 0.4 s later
SIGKILL. Ctrl-C is passed on: 30 s to end, a second Ctrl-C kills. Nothing stays behind, however the run ends.

Exit codes:
  0      every process ended with 0
  2      wrong usage
  124    --timeout has passed
  130    Ctrl-C; 128+n: the run was ended by signal n
  else   that of the process that failed first: its code, or 128+n when signal n killed it
)";

// As given; checked by checked_options(), which can say where a value came from.
struct Given {
  std::string processes, grace, timeout, transport, determinism, operation_timeout, store;
  bool no_prefix = false;
};

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: paceline run -n N [options] [--] program [arguments]\n";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  }
};

void add_options(CLI::App& app, Given& given) {
  const auto add = [&app](const char* names, std::string& to, const char* variable,
                          const char* type, const char* help) {
    app.add_option(names, to, help)->envname(variable)->type_name(type);
  };
  add("-n,--np,--nproc-per-node", given.processes, "PACELINE_RUN_NP", "N",
      "processes to start, 1 to 4096 (required)");
  add("--grace", given.grace, "PACELINE_RUN_GRACE", "TIME",
      "what the others have to end by themselves after a failure (1s)");
  add("--timeout", given.timeout, "PACELINE_RUN_TIMEOUT", "TIME",
      "stop the run after this time, exit code 124");
  add("--transport", given.transport, "PACELINE_RUN_TRANSPORT", "NAME",
      "between processes: auto, shm, tcp (auto)");
  add("--determinism", given.determinism, "PACELINE_RUN_DETERMINISM", "NAME",
      "reproducible, fast (reproducible)");
  add("--operation-timeout", given.operation_timeout, "PACELINE_RUN_OPERATION_TIMEOUT", "TIME",
      "a collective that takes longer fails (10min)");
  add("--store", given.store, "PACELINE_RUN_STORE", "HOST:PORT",
      "where the job's store listens, on this host (127.0.0.1:0, any free port)");
  app.add_flag("--no-prefix", given.no_prefix, "lines without \"[rank] \" before them")
      ->envname("PACELINE_RUN_NO_PREFIX");
}

// torchrun's and mpirun's names for -n have their variables too.
void take_other_names(Given& given) {
  for (const char* variable : {"PACELINE_RUN_N", "PACELINE_RUN_NPROC_PER_NODE"}) {
    const char* value = std::getenv(variable);
    if (given.processes.empty() && value != nullptr) given.processes = value;
  }
}

launch::RunOptions checked_options(const Given& given, const std::vector<std::string>& command) {
  launch::RunOptions options;
  PACELINE_CHECK(!given.processes.empty(),
                 "how many processes? Give their number, as in `paceline run -n 2 program`");
  options.processes = parse_count("-n", given.processes, 1, kMostProcesses);
  if (!given.grace.empty()) options.grace = parse_duration("--grace", given.grace);
  if (!given.timeout.empty()) options.timeout = parse_duration("--timeout", given.timeout);
  if (!given.transport.empty()) {
    options.transport = parse_choice("--transport", given.transport, {"auto", "shm", "tcp"});
  }
  if (!given.determinism.empty()) {
    options.determinism =
        parse_choice("--determinism", given.determinism, {"reproducible", "fast"});
  }
  if (!given.operation_timeout.empty()) {
    parse_duration("--operation-timeout", given.operation_timeout);
    options.operation_timeout = given.operation_timeout;
  }
  if (!given.store.empty()) {
    const Address address = parse_loopback_address("--store", given.store);
    options.store_host = address.host;
    options.store_port = address.port;
  }
  options.prefix = !given.no_prefix;
  PACELINE_CHECK(!command.empty(),
                 "no program given; write it after the options, as in `paceline run -n 2 program`");
  const char* path = std::getenv("PATH");
  options.program =
      launch::find_program(command.front(), path == nullptr ? "/usr/bin:/bin" : path).value();
  options.command = command;
  return options;
}

struct CommandLine {
  CommandLine() {
    app.formatter(std::make_shared<HelpFormatter>());
    app.get_formatter()->column_width(34);
    app.footer(kMore);
    add_options(app, given);
  }
  CLI::App app{kAbout, "paceline run"};
  Given given;
};

std::shared_ptr<const CLI::App> described() {
  const auto line = std::make_shared<CommandLine>();
  return {line, &line->app};
}

int run_main(const std::vector<std::string>& arguments) {
  CommandLine line;
  CLI::App& app = line.app;
  Given& given = line.given;
  auto [words, command] = split_command(app, arguments);
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    throw_misuse(error.what());
  }
  take_other_names(given);
  return launch::run(checked_options(given, command));
}

}  // namespace

Subcommand run() {
  return {"run", "start a program as N processes on this host", run_main, described};
}

}  // namespace paceline::cli
