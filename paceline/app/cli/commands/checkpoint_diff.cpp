// `paceline checkpoint diff`: in what two steps differ.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/checkpoint/checkpoint_folder.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"

namespace paceline::cli {
namespace {

constexpr const char* kDiffStepsAbout =
    "Compares two steps, of one run or of two: items, values, and tensors by name, type, shape and "
    "largest difference.";

constexpr const char* kDiffStepsMore = R"(Examples:
  paceline checkpoint diff runs/a runs/b            their newest steps
  paceline checkpoint diff runs/a/step-00000400 runs/a/step-00000600
  paceline checkpoint diff runs/a runs/b --json -

How tensors are cut into files, the step and the number of ranks do not matter.

Exit codes: 0 equal bit for bit; 1 different, or a manifest is damaged; 2 wrong usage
)";

constexpr CheckpointOptions::Texts kDiffTexts = {
    .who = "paceline checkpoint diff",
    .about = kDiffStepsAbout,
    .more = kDiffStepsMore,
    .directory_is = "the directory of a run, or of one step",
    .json_does = "write the differences as JSON; - is stdout"};

// The options of the others, and a second directory.
struct DiffOptions : CheckpointOptions {
  DiffOptions() : CheckpointOptions(kDiffTexts) {
    app.add_option("OTHER", other, "the directory to compare it with")->required();
  }
  std::string other;
};

int diff_steps(const std::vector<std::string>& arguments) {
  DiffOptions given;
  if (!parse(given.app, arguments)) return 0;
  SystemDisk disk;
  const FoundStep one = step_in(disk, given.directory), other = step_in(disk, given.other);
  const auto found = checkpoint::differences(disk, one.directory, manifest_of(disk, one),
                                             other.directory, manifest_of(disk, other))
                         .value();
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const checkpoint::Difference& difference : found) {
    const std::string place = difference.tensor.empty()
                                  ? difference.item
                                  : fmt::format("{}: {}", difference.item, difference.tensor);
    if (given.json != "-") fmt::print("{} {}\n", place, difference.what);
    json.push_back(
        {{"item", difference.item}, {"tensor", difference.tensor}, {"what", difference.what}});
  }
  if (found.empty() && given.json != "-")
    fmt::print("{} and {} are equal\n", one.directory, other.directory);
  if (!given.json.empty()) write_output("--json", given.json, json.dump(2) + "\n");
  return found.empty() ? 0 : kFailed;
}

}  // namespace

namespace catalogue {

Subcommand checkpoint_diff() {
  return {.name = "diff",
          .summary = "in what two steps differ",
          .main = diff_steps,
          .described = described<DiffOptions>,
          .group = "checkpoint",
          .place = 40};
}

}  // namespace catalogue
}  // namespace paceline::cli
