#include "paceline/torch/checkpointing/resuming.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/core/base/number.h"
#include "paceline/torch/checkpointing/common_failure.h"
#include "paceline/torch/checkpointing/saved_item.h"

namespace paceline::checkpointing {
namespace {

using checkpoint::Item;
using checkpoint::Manifest;

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> items_of(const Manifest& manifest) {
  std::vector<std::string> names;
  for (const Item& item : manifest.items)
    if (item.name != kStepsItem) names.push_back(item.name);
  return names;
}

std::vector<std::string> items_of(const std::vector<NamedPart>& parts) {
  std::vector<std::string> names;
  for (const NamedPart& part : parts) names.push_back(part.name);
  return names;
}

std::string quoted(const std::vector<std::string>& names) {
  return fmt::format("'{}'", fmt::join(names, "', '"));
}

[[noreturn]] void refuse(const std::string& path, const char* side, const std::string& name,
                         const char* other) {
  throw_misuse(
      fmt::format("cannot resume from {}: {} has an item '{}', and {} has none. Resume with the "
                  "program that saved it, leave the item out by CheckpointOptions{{.ignore = "
                  "{{\"{}\"}}}}, or save into another directory",
                  path, side, name, other, name));
}

// The models, if the program adds nothing else.
std::vector<std::string> models_alone(const std::vector<NamedPart>& parts) {
  std::vector<std::string> models;
  for (const NamedPart& part : parts) {
    if (part.kind == NamedPart::Kind::model) models.push_back(part.name);
    else if (part.kind != NamedPart::Kind::random) return {};
  }
  return models;
}

using checkpoint::Manifest;

const checkpoint::Item* find_item(const Manifest& manifest, const std::string& name) {
  const auto found = std::ranges::find(manifest.items, name, &checkpoint::Item::name);
  return found == manifest.items.end() ? nullptr : &*found;
}

[[noreturn]] void throw_none_is_whole(const std::string& directory, const ResumePoint& point) {
  throw_misuse(fmt::format(
      "none of the {} checkpoints in {} is whole ({}). The run does not begin at step 0 unless it "
      "is told to: CheckpointOptions{{.resume = Resume::anew}}, the examples' --resume=new, sets "
      "them aside",
      point.damaged.size(), directory, point.damaged.front()));
}

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

ItemChoice::ItemChoice(const CheckpointOptions& options)
    : only_(options.only), ignore_(options.ignore) {
  if (!only_.empty() && !ignore_.empty())
    throw_misuse(
        "CheckpointOptions has both .only and .ignore: name the items to load, or those to leave "
        "out");
}

bool ItemChoice::takes(const std::string& name) const {
  return only_.empty() ? !has(ignore_, name) : has(only_, name);
}

void ItemChoice::require_known(const std::vector<NamedPart>& parts) const {
  const std::vector<std::string> own = items_of(parts);
  for (const std::string& name : only_)
    if (!has(own, name))
      throw_misuse(
          fmt::format("CheckpointOptions::only names an item '{}', which this program did not add "
                      "to its checkpoints: it has {}",
                      name, quoted(own)));
}

ItemChoice::Chosen ItemChoice::of(const Manifest& manifest, const std::vector<NamedPart>& parts,
                                  const std::string& path) const {
  const std::vector<std::string> own = items_of(parts), saved = items_of(manifest);
  for (const std::string& name : ignore_)
    if (!has(own, name) && !has(saved, name))
      throw_misuse(fmt::format(
          "CheckpointOptions::ignore names an item '{}', which neither this program has nor {}: "
          "they have {} and {}",
          name, path, quoted(own), quoted(saved)));
  const std::vector<std::string> models = models_alone(parts);
  const bool is_implied = only_.empty() && ignore_.empty() && !models.empty();
  const auto is_taken = [&](const std::string& name) {
    return is_implied ? has(models, name) || name == kRandomItem : takes(name);
  };
  Chosen chosen;
  std::vector<std::string> left, fresh;
  for (const std::string& name : own) {
    if (is_taken(name) && !has(saved, name)) refuse(path, "this program", name, "the checkpoint");
    if (is_taken(name)) chosen.loaded.push_back(name);
    else if (!has(saved, name)) fresh.push_back(name);
  }
  for (const std::string& name : saved) {
    if (is_taken(name) && !has(own, name)) refuse(path, "the checkpoint", name, "this program");
    if (!is_taken(name)) left.push_back(name);
  }
  if (!left.empty()) chosen.told = fmt::format("of {} this run leaves out {}", path, quoted(left));
  if (!fresh.empty())
    chosen.told += fmt::format("{}{} begin{} anew", chosen.told.empty() ? "" : "; ", quoted(fresh),
                               fresh.size() == 1 ? "s" : "");
  return chosen;
}

ItemChoice::Chosen ItemChoice::all(const Manifest& manifest, const std::vector<NamedPart>& parts,
                                   const std::string& path) {
  return ItemChoice().of(manifest, parts, path);
}

Resuming::Resuming(Run run, Communicator& group, Disk& disk,
                   checkpoint::CheckpointDirectory& directory, const CheckpointOptions& options)
    : run_(std::move(run)),
      group_(group),
      disk_(disk),
      directory_(directory),
      resume_(options.resume),
      choice_(options) {}

bool Resuming::goes_on() const {
  return run_.generation > 1 || resume_ != Resume::no;
}

// --- old checkpoints -----------------------------------------------------------------------------

// Whether this job may have saved any of them. One whose manifest cannot be read may be its own.
bool Resuming::may_be_own(const std::vector<std::uint64_t>& steps) const {
  return std::ranges::any_of(steps, [&](std::uint64_t step) {
    const auto manifest = checkpoint::read_manifest(disk_, directory_.path_of(step));
    return manifest ? manifest.value().job == run_.job : manifest.error().fault != Fault::misuse;
  });
}

// A job that is started again may have failed before it had settled them.
void Resuming::settle_old_ones() {
  if (resume_ == Resume::yes) return;
  const std::vector<std::uint64_t> steps = directory_.steps().value();
  if (steps.empty() || (run_.generation > 1 && may_be_own(steps))) return;
  if (resume_ == Resume::anew) {
    const std::string folder = directory_.set_aside().value();
    warn(fmt::format("the checkpoints of {}, the newest of step {}, now stand in {}",
                     directory_.path(), steps.back(), folder));
    return;
  }
  throw_misuse(
      fmt::format("{} holds checkpoints already, the newest of step {}: resume from it "
                  "(CheckpointOptions::resume; Resume::anew sets them aside), or save into another "
                  "directory",
                  directory_.path(), steps.back()));
}

// --- where to go on ------------------------------------------------------------------------------

std::optional<std::uint64_t> Resuming::find(const std::vector<NamedPart>& parts) {
  choice_.require_known(parts);
  if (!goes_on()) return std::nullopt;
  std::string told;
  together(group_, [&] {
    if (group_.rank() != 0) return;
    const ResumePoint point = find_resume_point(disk_, directory_);
    for (const std::string& line : point.damaged) warn(line);
    const std::string& path = directory_.path();
    if (!point.step && !point.damaged.empty()) throw_none_is_whole(path, point);
    if (point.step) log_info(fmt::format("going on from {}", directory_.path_of(*point.step)));
    else log_info(fmt::format("no checkpoint in {}: beginning at step 0", path));
    if (point.step) told = std::to_string(*point.step);
  });
  return number_in<std::uint64_t>(broadcast_bytes(group_, told));
}

// --- loading -------------------------------------------------------------------------------------

// A job goes on with all that it has saved itself, whatever it left out when it began.
ItemChoice::Chosen Resuming::chosen_items(const Manifest& manifest,
                                          const std::vector<NamedPart>& parts,
                                          const std::string& path) const {
  const bool is_own = run_.generation > 1 && manifest.job == run_.job;
  return is_own ? ItemChoice::all(manifest, parts, path) : choice_.of(manifest, parts, path);
}

Resuming::Loaded Resuming::load(std::uint64_t step, const std::vector<NamedPart>& parts,
                                bool may_differ) {
  const std::string path = directory_.path_of(step);
  checkpoint::CheckpointReader reader(disk_, path);
  Manifest manifest;
  Loaded loaded{.own_step = static_cast<std::int64_t>(step), .items = {}};
  std::vector<std::pair<const NamedPart*, SavedItem>> items;
  together(group_, [&] {
    manifest = checkpoint::read_manifest(disk_, path).value();
    ItemChoice::Chosen chosen = chosen_items(manifest, parts, path);
    if (group_.rank() == 0 && !chosen.told.empty()) log_info(chosen.told);
    loaded.items = std::move(chosen.loaded);
    for (const NamedPart& part : parts) {
      if (std::ranges::find(loaded.items, part.name) == loaded.items.end()) continue;
      items.emplace_back(
          &part, SavedItem(path, manifest, *find_item(manifest, part.name), reader, group_.rank()));
      part.part->check(items.back().second);
    }
  });
  together(group_, [&] {
    if (const checkpoint::Item* const steps = find_item(manifest, kStepsItem); steps && may_differ)
      loaded.own_step = saved_rank_step(SavedItem(path, manifest, *steps, reader, group_.rank()));
  });
  // torch's stream comes last: nothing draws from it after that.
  for (const bool first : {true, false})
    for (std::size_t i = items.size(); i-- > 0;)
      if (items[i].first->is_loaded_first == first)
        together(group_, [&] { items[i].first->part->load(items[i].second); });
  return loaded;
}

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
