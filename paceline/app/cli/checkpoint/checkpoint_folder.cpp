#include "paceline/app/cli/checkpoint/checkpoint_folder.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/core/base/check.h"

namespace paceline::cli {
namespace {

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

std::vector<FoundStep> steps_in(Disk& disk, const std::string& given) {
  const std::string path = without_slashes(given);
  const std::size_t slash = path.rfind('/');
  const auto own =
      checkpoint::step_of_name(slash == std::string::npos ? path : path.substr(slash + 1));
  const auto entries = disk.list(path).value();
  PACELINE_CHECK(!entries.empty(),
                 "{} is missing or empty; give the directory of a run, or one step in it such as "
                 "{}/step-00000400",
                 path, path);
  if (own) return {{*own, path}};
  const checkpoint::CheckpointDirectory directory(disk, path);
  std::vector<FoundStep> found;
  for (const std::uint64_t step : directory.steps().value())
    found.push_back({step, directory.path_of(step)});
  PACELINE_CHECK(!found.empty(),
                 "{} holds no checkpoint; they are directories such as {}/step-00000400", path,
                 path);
  return found;
}

FoundStep step_in(Disk& disk, const std::string& path) {
  return steps_in(disk, path).back();
}

checkpoint::Manifest manifest_of(Disk& disk, const FoundStep& step) {
  return checkpoint::read_manifest(disk, step.directory).value();
}

std::uint64_t bytes_in(const checkpoint::Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const checkpoint::StoredFile& file : manifest.files) bytes += file.length;
  return bytes;
}

CheckpointOptions::CheckpointOptions(const Texts& texts) : app(texts.about, texts.who) {
  app.footer(texts.more);
  app.add_option("DIRECTORY", directory, texts.directory_is)->required();
  app.add_option("--json", json, texts.json_does)->type_name("FILE");
}

std::shared_ptr<const CLI::App> described_options(const CheckpointOptions::Texts& texts) {
  const auto options = std::make_shared<CheckpointOptions>(texts);
  return {options, &options->app};
}

}  // namespace paceline::cli
