// `paceline profile`: runs a training program, and writes the model of its steps to a file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "paceline/app/cli/commands/subcommand_entries.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/durable_file.h"
#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/schedule/replay/model_file.h"

namespace paceline::cli {
namespace {

constexpr const char* kOutput = "--output";

constexpr const char* kProfileAbout =
    "Runs a program that trains with DataParallel, and writes a file on its model, from which "
    "schedules can be computed: each\n"
    "parameter's size, shape and share of the forward pass, the backward pass and the update.";

constexpr const char* kProfileMore = R"(Examples:
  paceline profile --output mnist.json -- build/release/bin/mnist --epochs 1
  paceline profile --output mlp.json -n 2 --timeout 10min -- ./train
  paceline bench schedule --ranks 2 --models mlp.json,bert-base    what schedules gain for it, on these links
  paceline plan pipeline --profile mlp.json --ranks 2              stages for it, if the program builds Layers
  PACELINE_RECORD=mlp.json mpirun -n 2 ./train                     records under any other launcher

All options of `paceline run` may be given; without any, the program is one process. Rank 0 records the quickest of the
steps 2 to 21, or of fewer if the program ends before; recording changes neither results nor schedule.
Of a step that accumulates over several backward passes the last pass is recorded. The batch size is the weight that
parallel.weight() was given, divided by the number of passes, else 1. If a program has several DataParallels, the last
one to finish is kept. A program that trains by a Pipeline on one process has its layers recorded too: seconds as medians of 20
passes after 5, in which nothing is recomputed, and bytes. The time between a step's end and its gradients counts as computation, so loading data counts as
forward pass, and so does an optimizer that is stepped by hand and not by parallel.step(). The times are most exact if
ranks do not share cores. For a plan of a pipeline whose ranks are on one machine, record what they will do there: as many
processes and samples of a micro-batch, such as -n 2 -- ./train --layout dp=2 --micro-batches 4 for two stages.

Exit codes: 0 done; 1 the program made no step with DataParallel; 2 wrong usage; else as `paceline run`
)";

class ProfileHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: paceline profile --output FILE [options of paceline run] [--] program "
           "[arguments]\n";
  }
};

struct ProfileLine {
  ProfileLine() {
    app.formatter(std::make_shared<ProfileHelp>());
    app.footer(kProfileMore);
    app.add_option(kOutput, output,
                   "file for the model, as JSON; it is replaced when the program has ended")
        ->type_name("FILE");
  }
  CLI::App app{kProfileAbout, "paceline profile"};
  std::string output;
};

// The words before the program, divided into our own and those of `paceline run`.
struct Words {
  std::vector<std::string> own, of_run, command;
};

Words words_of(const std::vector<std::string>& arguments) {
  const auto all = std::const_pointer_cast<CLI::App>(catalogue::run().described());
  std::string ignored;
  all->add_option(kOutput, ignored);
  SplitCommand split = split_command(*all, arguments);
  Words words{.own = {}, .of_run = {}, .command = std::move(split.command)};
  for (std::size_t i = 0; i < split.options.size(); ++i) {
    const std::string& word = split.options[i];
    const bool is_own = word == kOutput || word == "-h" || word == "--help" ||
                        word.starts_with(std::string(kOutput) + "=");
    auto& to = is_own ? words.own : words.of_run;
    to.push_back(word);
    if (word == kOutput) to.push_back(split.options[++i]);
  }
  return words;
}

// Whether the number of processes is not given.
bool is_for_one(const std::vector<std::string>& of_run) {
  constexpr std::array kWays = {
      "PACELINE_RUN_NP",    "PACELINE_RUN_N",        "PACELINE_RUN_NPROC_PER_NODE",
      "PACELINE_RUN_HOSTS", "PACELINE_RUN_HOSTFILE", "PET_NPROC_PER_NODE"};
  return of_run.empty() &&
         std::ranges::none_of(kWays, [](const char* way) { return std::getenv(way) != nullptr; });
}

void keep(const std::string& recorded, const std::string& output, DurableFile& file) {
  schedule::Model model = schedule::read_model(recorded);
  model.name = std::filesystem::path(output).stem().string();
  file.commit(json_of(model));
  constexpr double kMilli = 1e3, kMega = 1e-6;
  fmt::print(
      stderr,
      "paceline profile: {}: {} tensors of {:.2f} MB{}, batch {}; forward {:.2f} ms, backward "
      "{:.2f} ms, update {:.2f} ms\n",
      output, model.size(), static_cast<double>(model.bytes()) * kMega,
      model.layers.empty() ? "" : fmt::format(", {} layers", model.layers.size()), model.batch,
      model.forward() * kMilli, model.backward() * kMilli, model.update() * kMilli);
}

// A file that is removed at the end, even after an exception.
struct TemporaryFile {
  explicit TemporaryFile(std::string name) : path(std::move(name)) { remove(); }
  ~TemporaryFile() { remove(); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  const std::string path;
};

int profile_main(const std::vector<std::string>& arguments) {
  ProfileLine line;
  Words words = words_of(arguments);
  if (!parse(line.app, words.own)) return 0;
  PACELINE_CHECK(!line.output.empty(),
                 "--output is missing, the file for the recorded model; for example `paceline "
                 "profile --output model.json -- "
                 "program`");
  PACELINE_CHECK(std::ranges::find(words.of_run, "--dry-run") == words.of_run.end(),
                 "--dry-run runs nothing that could be recorded; `paceline run` takes it");
  if (is_for_one(words.of_run)) words.of_run = {"-n", "1"};
  words.of_run.emplace_back("--");
  words.of_run.insert(words.of_run.end(), words.command.begin(), words.command.end());

  const std::string output = std::filesystem::absolute(line.output).string();
  const TemporaryFile recorded(output + ".recorded");
  DurableFile file("model file", output);
  ::setenv(membership::variable::kRecord, recorded.path.c_str(), 1);
  const int code = catalogue::run().main(words.of_run);
  if (std::filesystem::exists(recorded.path)) {
    keep(recorded.path, line.output, file);
    return code;
  }
  fmt::print(stderr,
             "paceline profile: rank 0 has recorded nothing for {}: the program made no step with "
             "a DataParallel(model, job) of this Paceline, or rank 0 runs on a host that does not "
             "share this folder\n",
             line.output);
  return code == 0 ? kFailed : code;
}

}  // namespace

namespace catalogue {

Subcommand profile() {
  return {.name = "profile",
          .summary = "run a training program, and record its model for bench schedule and plan",
          .main = profile_main,
          .described = described<ProfileLine>,
          .place = 30};
}

}  // namespace catalogue
}  // namespace paceline::cli
