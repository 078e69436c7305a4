// `paceline bench layouts`: runs a training program once for each layout, and compares them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "paceline/app/cli/layouts/layouts_table.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/job_options.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/app/launch/launch.h"
#include "paceline/core/base/check.h"
#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/schedule/replay/model_file.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::cli {
namespace {

constexpr const char* kBenchLayoutsAbout =
    "Runs a training program once for each layout, with --layout and --metrics, and compares what "
    "a device has to do:\n"
    "samples, traffic, storage, balance and limit, by formulas and as measured.";

constexpr const char* kBenchLayoutsMore = R"(Examples:
  paceline bench layouts --layouts none,dp=2,pp=2,tp=2 --micro-batches 4 -- fashion_mnist --model mlp --steps 105
  paceline bench layouts --layouts none,dp=2,dp=2+pp=2 --rounds 3 -- tiny_gpt --steps 55
  paceline bench layouts --profile cnn.json --partition 0-5,6-8 --json - -- fashion_mnist --model cnn --steps 105

"none" is one process, without --layout. + joins the axes of one layout. The program takes --layout LAYOUT and --metrics
FILE; the last line there is its summary, with "event": "summary" and "train_samples_per_second". Its other lines go to
stderr. What it tells no figure of stays "-".

The formulas need the model's weights, which are recorded in the first run without stages and split layers. What crosses
a cut, and the balance of stages, they take from the layers of --profile (`paceline profile` writes it, if the program
builds Layers). Traffic is what a rank sends of gradients, and what crosses all cuts. Labels say whether one program (SP)
or several (MP) work on one part of the data (SD) or several (MD).

Exit codes: 0 done; 1 a run told no summary; 2 wrong usage; else that of the first run that failed, as `paceline run`
)";

class BenchLayoutsHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: paceline bench layouts [options] [--] program [arguments]\n";
  }
};

struct BenchLayoutsLine {
  BenchLayoutsLine() {
    app.formatter(std::make_shared<BenchLayoutsHelp>());
    const auto add = adder(app, kBenchLayoutsMore);
    add("--layouts", layouts, "LIST", "layouts to compare (none,dp=2,pp=2,tp=2)");
    add("--rounds", rounds, "N", "runs of each, one layout after the other; medians count (1)");
    add("--pipeline", pipeline, "SCHEDULE", "given to the program in layouts with stages");
    add("--micro-batches", micro_batches, "N|auto", "given to the program in layouts with stages");
    add("--partition", partition, "P",
        "given to the program in layouts with stages (as many layers on each, to one)");
    add("--profile", profile, "FILE", "the program's model with its layers, for the formulas");
    add("--batch", batch, "B",
        "samples of a step of all ranks together (as recorded, times --micro-batches)");
    add("--hosts", hosts.hosts, "LIST", "hosts and their slots, as a:1,b:1; the first is this one");
    add("--hostfile", hosts.hostfile, "FILE", "file with one host and its slots on each line");
    add("--ssh", hosts.ssh, "CMD", "program that runs a command on a host, as in paceline run");
    add("--transport", transport, "NAME", "how data travels: auto, shm, tcp, ucx (auto)");
    add("--timeout", timeout, "TIME", "stop a run after this time; exit code 124");
    add("--json", json, "FILE", "write the table as one object; - is stdout, without the table");
  }
  CLI::App app{kBenchLayoutsAbout, "paceline bench layouts"};
  std::string layouts = "none,dp=2,pp=2,tp=2", rounds = "1", pipeline, micro_batches, partition,
              profile, batch, transport, timeout, json;
  GivenHosts hosts;
};

// A folder for the files of the runs.
class RunsFolder {
 public:
  RunsFolder() {
    std::string name = std::filesystem::temp_directory_path() / "paceline-layouts-XXXXXX";
    PACELINE_CHECK(::mkdtemp(name.data()) != nullptr,
                   "no folder such as {} can be made: set TMPDIR to one that can be written", name);
    path_ = name;
  }
  ~RunsFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RunsFolder(const RunsFolder&) = delete;
  RunsFolder& operator=(const RunsFolder&) = delete;

  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// While it lives, what is written to stdout goes to stderr: stdout is for the table.
class StdoutToStderr {
 public:
  StdoutToStderr() : stdout_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~StdoutToStderr() {
    std::fflush(stdout);
    ::dup2(stdout_.get(), STDOUT_FILENO);
  }
  StdoutToStderr(const StdoutToStderr&) = delete;
  StdoutToStderr& operator=(const StdoutToStderr&) = delete;

 private:
  const transport::FileDescriptor stdout_;
};

// The value of an option among the program's words; empty if it is not there.
std::string word_after(const std::vector<std::string>& command, const std::string& option) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i].starts_with(option + "=")) return command[i].substr(option.size() + 1);
    if (command[i] == option && i + 1 < command.size()) return command[i + 1];
  }
  return {};
}

struct LayoutComparison {
  std::vector<LayoutChoice> layouts;
  int rounds = 1;
  std::vector<std::string> of_stages;  // words for the program in layouts with stages
  std::string partition;
  std::optional<int> batch;
  std::optional<schedule::Model> profile;
  launch::RunOptions run;
};

LayoutComparison checked_comparison(const BenchLayoutsLine& line,
                                    std::vector<std::string> command) {
  constexpr int kMost = 1'000'000'000;
  LayoutComparison all{.layouts = parse_layouts("--layouts", line.layouts)};
  all.rounds = parse_count("--rounds", line.rounds, 1, 1000);
  const auto hand_on = [&all](const char* option, const std::string& value) {
    if (!value.empty()) all.of_stages.insert(all.of_stages.end(), {option, value});
  };
  hand_on("--pipeline", line.pipeline);
  hand_on("--micro-batches", line.micro_batches);
  hand_on("--partition", line.partition);
  all.partition = line.partition;
  if (!line.batch.empty()) all.batch = parse_count("--batch", line.batch, 1, kMost);
  if (!line.profile.empty()) all.profile = schedule::read_model(line.profile);
  PACELINE_CHECK(!command.empty(),
                 "no program is given; for example `paceline bench layouts --layouts none,dp=2 -- "
                 "fashion_mnist --steps 105`");
  for (const char* option : {"--layout", "--metrics"})
    PACELINE_CHECK(
        std::ranges::find(command, option) == command.end() && word_after(command, option).empty(),
        "{} stands among the program's words, and is given to it for each layout: leave "
        "it out",
        option);
  if (!line.transport.empty()) all.run.transport = parse_own_transport(line.transport);
  if (!line.timeout.empty()) all.run.timeout = parse_duration("--timeout", line.timeout);
  const char* path = std::getenv("PATH");
  all.run.program =
      launch::find_program(command.front(), path == nullptr ? "/usr/bin:/bin" : path).value();
  all.run.command = std::move(command);
  return all;
}

struct Runs {
  int code = 0;  // of the first that failed; then the rest is not there
  std::vector<std::vector<MeasuredRun>> measured;  // by layout and round
  std::optional<schedule::Model> recorded;         // the whole model, with the batch of all ranks
};

class LayoutRuns {
 public:
  LayoutRuns(const LayoutComparison& all, const GivenHosts& hosts) : all_(all), hosts_(hosts) {}

  Runs run() {
    Runs runs;
    runs.measured.resize(all_.layouts.size());
    for (int round = 1; round <= all_.rounds; ++round) {
      for (std::size_t i = 0; i < all_.layouts.size(); ++i) {
        fmt::print(stderr, "paceline bench layouts: {}, round {} of {}\n", all_.layouts[i].name,
                   round, all_.rounds);
        runs.code = run_one(all_.layouts[i], runs);
        if (runs.code != 0) return runs;
        const auto measured = read_measured_run(folder_.file("metrics"), all_.layouts[i]);
        if (!measured) {
          fmt::print(stderr, "paceline bench layouts: {}: {}\n", all_.layouts[i].name,
                     measured.error().what);
          runs.code = kFailed;
          return runs;
        }
        runs.measured[i].push_back(measured.value());
      }
    }
    return runs;
  }

 private:
  // Rank 0 sees the whole model, and not its own part alone.
  static bool shows_model(const LayoutChoice& layout) { return layout.pp == 1 && layout.tp == 1; }

  int run_one(const LayoutChoice& layout, Runs& runs) {
    launch::RunOptions options = all_.run;
    options.processes = layout.ranks();
    take_hosts(hosts_, layout.ranks(), options);
    const std::string metrics = folder_.file("metrics"), recorded = folder_.file("model.json");
    for (const std::string& file : {metrics, recorded}) std::filesystem::remove(file);
    if (!layout.option.empty())
      options.command.insert(options.command.end(), {"--layout", layout.option});
    if (layout.pp > 1)
      options.command.insert(options.command.end(), all_.of_stages.begin(), all_.of_stages.end());
    options.command.insert(options.command.end(), {"--metrics", metrics});
    const bool records = !all_.profile && !runs.recorded && shows_model(layout);
    namespace variable = membership::variable;
    if (records) ::setenv(variable::kRecord, recorded.c_str(), 1);
    const int code = launched(options);
    if (records) ::unsetenv(variable::kRecord);
    if (code != 0) {
      fmt::print(stderr,
                 "paceline bench layouts: {}: the program ended with code {}; it must train with "
                 "{}--metrics FILE\n",
                 layout.name, code,
                 layout.option.empty() ? "" : fmt::format("--layout {} and ", layout.option));
      return code;
    }
    if (records && std::filesystem::exists(recorded)) {
      runs.recorded = schedule::read_model(recorded);
      runs.recorded->batch *= layout.dp * passes_of_step();
    }
    return 0;
  }

  // A recording holds one pass of a step that accumulates several.
  int passes_of_step() const {
    const std::string given = word_after(all_.run.command, "--micro-batches");
    return given.empty() || given == "auto" ? 1 : std::max(1, std::atoi(given.c_str()));
  }

  static int launched(const launch::RunOptions& options) {
    const StdoutToStderr redirected;
    return launch::run(options);
  }

  const LayoutComparison& all_;
  const GivenHosts& hosts_;
  const RunsFolder folder_;
};

// The run of the median speed.
MeasuredRun median_run(std::vector<MeasuredRun> rounds) {
  std::ranges::sort(rounds, {}, &MeasuredRun::samples_per_second);
  return rounds[(rounds.size() - 1) / 2];
}

ModelFacts known_facts(const LayoutComparison& all, const Runs& runs) {
  const std::optional<schedule::Model>& model = all.profile ? all.profile : runs.recorded;
  ModelFacts facts = model ? facts_of(*model) : ModelFacts();
  facts.partition = all.partition;
  if (all.batch) facts.batch = all.batch;
  return facts;
}

int bench_layouts_main(const std::vector<std::string>& arguments) {
  BenchLayoutsLine line;
  auto [words, command] = split_command(line.app, arguments);
  if (!parse(line.app, std::move(words))) return 0;
  const LayoutComparison all = checked_comparison(line, std::move(command));
  const Runs runs = LayoutRuns(all, line.hosts).run();
  if (runs.code != 0) return runs.code;
  std::vector<MeasuredRun> medians;
  for (const auto& rounds : runs.measured) medians.push_back(median_run(rounds));
  const LayoutsTable table = layouts_table(known_facts(all, runs), all.layouts, medians);
  if (line.json != "-") fmt::print("{}", layouts_text(table));
  if (!line.json.empty()) write_output("--json", line.json, layouts_json(table));
  return 0;
}

}  // namespace

namespace catalogue {

Subcommand bench_layouts() {
  return {.name = "layouts",
          .summary = "a training program with each layout: traffic, storage, balance, speed",
          .main = bench_layouts_main,
          .described = described<BenchLayoutsLine>,
          .group = "bench"};
}

}  // namespace catalogue
}  // namespace paceline::cli
