// `paceline checkpoint show`: the content of one step.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/app/cli/checkpoint/checkpoint_folder.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"

namespace paceline::cli {
namespace {

constexpr const char* kShowStepAbout =
    "Shows what a step holds, as its manifest tells: items, their values and their tensors.";

constexpr const char* kShowStepMore = R"(Examples:
  paceline checkpoint show runs/a                  the newest step
  paceline checkpoint show runs/a/step-00000400
  paceline checkpoint show runs/a --json -         the manifest itself

Exit codes: 0 done; 1 the manifest is damaged; 2 wrong usage
)";

constexpr CheckpointOptions::Texts kShowTexts = {
    .who = "paceline checkpoint show",
    .about = kShowStepAbout,
    .more = kShowStepMore,
    .directory_is = "the directory of a run, or of one step",
    .json_does = "write the manifest as JSON; - is stdout"};

std::string text_of(const checkpoint::LogicalTensor& tensor) {
  const std::string of_rank = tensor.rank < 0 ? "" : fmt::format(" of rank {}", tensor.rank);
  const std::string pieces =
      tensor.pieces.size() == 1 ? "" : fmt::format(", in {} pieces", tensor.pieces.size());
  return fmt::format("  {:<40} {}[{}]{}{}\n", tensor.name, name_of(tensor.dtype),
                     fmt::join(tensor.shape, ", "), of_rank, pieces);
}

std::string text_of(const checkpoint::Manifest& manifest) {
  std::string text =
      fmt::format("step {} of job \"{}\", generation {}, saved by {} ranks: {} in {} files\n",
                  manifest.step, manifest.job, manifest.generation, manifest.world_size,
                  size_text(bytes_in(manifest)), manifest.files.size());
  for (const checkpoint::Item& item : manifest.items) {
    text += fmt::format("\n{}\n", item.name);
    for (const auto& [key, value] : item.values.items())
      text += fmt::format("  {:<40} {}\n", key, value.dump());
    for (const checkpoint::LogicalTensor& tensor : item.tensors) text += text_of(tensor);
  }
  return text;
}

int show_step(const std::vector<std::string>& arguments) {
  CheckpointOptions given(kShowTexts);
  if (!parse(given.app, arguments)) return 0;
  SystemDisk disk;
  const checkpoint::Manifest manifest = manifest_of(disk, step_in(disk, given.directory));
  if (given.json != "-") fmt::print("{}", text_of(manifest));
  if (!given.json.empty()) write_output("--json", given.json, to_json(manifest));
  return 0;
}

}  // namespace

namespace catalogue {

Subcommand checkpoint_show() {
  return {.name = "show",
          .summary = "what a step holds",
          .main = show_step,
          .described = [] { return described_options(kShowTexts); },
          .group = "checkpoint",
          .place = 20};
}

}  // namespace catalogue
}  // namespace paceline::cli
