#include "paceline/torch/checkpoint/resume_point.h"

#include <fmt/format.h>

#include <ranges>

namespace paceline::checkpointing {
namespace {

[[noreturn]] void throw_unreadable(const std::string& path, const std::string& why) {
  throw Error({Fault::io,
               fmt::format("the checkpoint {} cannot be read now: {}. It may be whole, so nothing "
                           "goes on without it: make it readable, or move it away",
                           path, why),
               {}});
}

// A name of a checkpoint that is a link or a file stands for one that somebody moved.
void require_no_newer_link(const checkpoint::CheckpointDirectory& directory,
                           std::optional<std::uint64_t> step) {
  const auto newest = directory.newest_that_is_no_directory().value();
  if (newest && (!step || *newest > *step))
    throw_unreadable(directory.path_of(*newest), "it is no directory, and links are not followed");
}

}  // namespace

ResumePoint find_resume_point(Disk& disk, const checkpoint::CheckpointDirectory& directory) {
  ResumePoint point;
  const std::vector<std::uint64_t> steps = directory.steps().value();
  for (const std::uint64_t step : std::views::reverse(steps)) {
    const std::string path = directory.path_of(step);
    auto damage = checkpoint::damage_of(disk, path);
    if (!damage && damage.error().fault == Fault::misuse) throw Error(damage.error());
    if (!damage) throw_unreadable(path, damage.error().what);
    if (damage.value().empty()) {
      point.step = step;
      break;
    }
    point.damaged.push_back(*std::move(damage));
  }
  require_no_newer_link(directory, point.step);
  return point;
}

}  // namespace paceline::checkpointing
