// `paceline checkpoint verify`: compares every byte with its checksum.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/checkpoint/checkpoint_folder.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"

namespace paceline::cli {
namespace {

constexpr const char* kVerifyStepsAbout =
    "Reads every byte of a run's steps, or of one step, and compares it with its checksum.";

constexpr const char* kVerifyStepsMore = R"(Examples:
  paceline checkpoint verify runs/a                 all of its steps
  paceline checkpoint verify runs/a/step-00000400
  paceline checkpoint verify runs/a --json -

Of a damaged file it tells which part, and which tensors lie there.

Exit codes: 0 all bytes are as they were written; 1 some are not; 2 wrong usage
)";

constexpr CheckpointOptions::Texts kVerifyTexts = {
    .who = "paceline checkpoint verify",
    .about = kVerifyStepsAbout,
    .more = kVerifyStepsMore,
    .directory_is = "the directory of a run, or of one step",
    .json_does = "write what was found as JSON; - is stdout"};

struct Verified {
  std::uint64_t bytes = 0;
  std::vector<checkpoint::Damage> damages;
};

Verified verified(Disk& disk, const FoundStep& step) {
  const auto manifest = checkpoint::read_manifest(disk, step.directory);
  if (!manifest) return {0, {{std::string(checkpoint::kManifestName), "", manifest.error().what}}};
  return {bytes_in(manifest.value()), checkpoint::damages(disk, step.directory, manifest.value())};
}

int verify_steps(const std::vector<std::string>& arguments) {
  CheckpointOptions given(kVerifyTexts);
  if (!parse(given.app, arguments)) return 0;
  const bool prints = given.json != "-";
  SystemDisk disk;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool is_sound = true;
  for (const FoundStep& step : steps_in(disk, given.directory)) {
    const Verified found = verified(disk, step);
    nlohmann::ordered_json damages = nlohmann::ordered_json::array();
    is_sound = is_sound && found.damages.empty();
    if (prints && found.damages.empty())
      fmt::print("{}: {}, all as they were written\n", step.directory, size_text(found.bytes));
    for (const checkpoint::Damage& damage : found.damages) {
      const std::string tensors =
          damage.tensors.empty() ? "" : fmt::format(" ({})", damage.tensors);
      if (prints)
        fmt::print("{}: damaged: {}: {}{}\n", step.directory, damage.file, damage.what, tensors);
      damages.push_back(
          {{"file", damage.file}, {"tensors", damage.tensors}, {"what", damage.what}});
    }
    json.push_back({{"step", step.step}, {"bytes", found.bytes}, {"damages", damages}});
  }
  if (!given.json.empty()) write_output("--json", given.json, json.dump(2) + "\n");
  return is_sound ? 0 : kFailed;
}

}  // namespace

namespace catalogue {

Subcommand checkpoint_verify() {
  return {.name = "verify",
          .summary = "every byte against its checksum",
          .main = verify_steps,
          .described = [] { return described_options(kVerifyTexts); },
          .group = "checkpoint",
          .place = 30};
}

}  // namespace catalogue
}  // namespace paceline::cli
