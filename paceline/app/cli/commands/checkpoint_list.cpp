// `paceline checkpoint ls`: the committed steps of a run.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/checkpoint/checkpoint_folder.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/base/check.h"

namespace paceline::cli {
namespace {

constexpr const char* kListAbout =
    "Lists the committed steps of a run, as their manifests tell; no tensor is read.";

constexpr const char* kListMore = R"(Examples:
  paceline checkpoint ls runs/a
  paceline checkpoint ls runs/a --json -

Exit codes: 0 done; 1 a manifest is damaged; 2 wrong usage
)";

constexpr CheckpointOptions::Texts kListTexts = {
    .who = "paceline checkpoint ls",
    .about = kListAbout,
    .more = kListMore,
    .directory_is = "the directory of a run",
    .json_does = "write the list as JSON; - is stdout"};

int list_steps(const std::vector<std::string>& arguments) {
  CheckpointOptions given(kListTexts);
  if (!parse(given.app, arguments)) return 0;
  SystemDisk disk;
  std::string text = fmt::format("{:>12}  {:>5}  {:>10}  {:>10}  {}\n", "step", "ranks",
                                 "generation", "size", "items");
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool is_damaged = false;
  for (const FoundStep& step : steps_in(disk, given.directory)) {
    const auto manifest = checkpoint::read_manifest(disk, step.directory);
    if (!manifest) {
      is_damaged = true;
      text += fmt::format("{:>12}  {}\n", step.step, manifest.error().what);
      json.push_back({{"step", step.step}, {"damage", manifest.error().what}});
      continue;
    }
    const checkpoint::Manifest& read = manifest.value();
    std::vector<std::string> items;
    for (const checkpoint::Item& item : read.items) items.push_back(item.name);
    text += fmt::format("{:>12}  {:>5}  {:>10}  {:>10}  {}\n", read.step, read.world_size,
                        read.generation, size_text(bytes_in(read)), fmt::join(items, ", "));
    json.push_back({{"step", read.step},
                    {"job", read.job},
                    {"generation", read.generation},
                    {"world_size", read.world_size},
                    {"bytes", bytes_in(read)},
                    {"items", items}});
  }
  if (given.json != "-") fmt::print("{}", text);
  if (!given.json.empty()) write_output("--json", given.json, json.dump(2) + "\n");
  return is_damaged ? kFailed : 0;
}

}  // namespace

namespace catalogue {

Subcommand checkpoint_list() {
  return {.name = "ls",
          .summary = "the steps that a run has saved",
          .main = list_steps,
          .described = [] { return described_options(kListTexts); },
          .group = "checkpoint",
          .place = 10};
}

}  // namespace catalogue
}  // namespace paceline::cli
