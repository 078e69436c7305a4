#include "paceline/torch/checkpoint/resume_point.h"

#include <fmt/format.h>

#include <ranges>

namespace paceline::checkpointing {
namespace {

using checkpoint::Damage;

// Empty: every byte is as it was written.
std::string damage_of(Disk& disk, const std::string& directory) {
  const auto manifest = checkpoint::read_manifest(disk, directory);
  if (!manifest) {
    if (manifest.error().fault == Fault::misuse) throw Error(manifest.error());
    return manifest.error().what;
  }
  const std::vector<Damage> found = checkpoint::damages(disk, directory, manifest.value());
  if (found.empty()) return {};
  const Damage& first = found.front();
  std::string text = fmt::format("{}/{} is damaged: {}", directory, first.file, first.what);
  if (!first.tensors.empty()) text += fmt::format(" (of {})", first.tensors);
  return text;
}

}  // namespace

ResumePoint find_resume_point(Disk& disk, const checkpoint::CheckpointDirectory& directory) {
  ResumePoint point;
  const std::vector<std::uint64_t> steps = directory.steps().value();
  for (const std::uint64_t step : std::views::reverse(steps)) {
    std::string damage = damage_of(disk, directory.path_of(step));
    if (damage.empty()) {
      point.step = step;
      break;
    }
    point.damaged.push_back(std::move(damage));
  }
  return point;
}

}  // namespace paceline::checkpointing
