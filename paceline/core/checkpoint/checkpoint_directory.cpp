#include "paceline/core/checkpoint/checkpoint_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "paceline/core/base/number.h"
#include "paceline/core/base/sha256.h"

namespace paceline::checkpoint {
namespace {

constexpr std::string_view kStep = "step-", kSaving = ".saving-", kRemoving = ".removing-";
constexpr std::string_view kAside = "aside-";

std::string numbered(std::string_view prefix, std::uint64_t step) {
  return fmt::format("{}{:08}", prefix, step);
}

Bytes bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The steps that go, in ascending order.
std::vector<std::uint64_t> superseded(const std::vector<std::uint64_t>& steps, const Keep& keep,
                                      const std::set<std::uint64_t>& verified) {
  std::vector<std::uint64_t> whole, leaving;
  std::ranges::set_intersection(steps, verified, std::back_inserter(whole));
  const std::size_t last = std::max<std::uint64_t>(1, keep.last);
  if (whole.size() < last) return {};
  const std::uint64_t oldest = whole[whole.size() - last];
  for (const std::uint64_t step : steps)
    if (step < oldest && (keep.every == 0 || step % keep.every != 0)) leaving.push_back(step);
  return leaving;
}

}  // namespace

std::string name_of_step(std::uint64_t step) {
  return numbered(kStep, step);
}

std::optional<std::uint64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const auto step = number_in<std::uint64_t>(name.substr(kStep.size()));
  return step && name_of_step(*step) == name ? step : std::nullopt;
}

Result<std::vector<std::uint64_t>> CheckpointDirectory::steps() const {
  const auto entries = disk_.list(path_);
  if (!entries) return entries.error();
  std::vector<std::uint64_t> steps;
  for (const Disk::Entry& entry : entries.value()) {
    const auto step = step_of_name(entry.name);
    if (step && entry.kind == Disk::Entry::Kind::directory) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

Result<std::optional<std::uint64_t>> CheckpointDirectory::newest_that_is_no_directory() const {
  const auto entries = disk_.list(path_);
  if (!entries) return entries.error();
  std::optional<std::uint64_t> newest;
  for (const Disk::Entry& entry : entries.value()) {
    const auto step = step_of_name(entry.name);
    if (step && entry.kind != Disk::Entry::Kind::directory) newest = std::max(newest, step);
  }
  return newest;
}

std::string CheckpointDirectory::saving(std::uint64_t step) const {
  return path_ + "/" + numbered(kSaving, step);
}

Result<> CheckpointDirectory::remove_leftovers() {
  const auto entries = disk_.list(path_);
  if (!entries) return entries.error();
  for (const Disk::Entry& entry : entries.value()) {
    const bool is_ours = entry.name.starts_with(kSaving) || entry.name.starts_with(kRemoving);
    if (!is_ours || entry.kind != Disk::Entry::Kind::directory) continue;
    if (auto removed = remove_tree(disk_, path_ + "/" + entry.name); !removed) return removed;
  }
  return Done{};
}

Result<std::string> CheckpointDirectory::begin(std::uint64_t step) {
  if (auto removed = remove_leftovers(); !removed) return removed.error();
  if (auto made = disk_.make_directory(saving(step)); !made) return made.error();
  return saving(step);
}

Result<> CheckpointDirectory::write_durably(const std::string& path, std::string_view text) {
  auto file = disk_.create(path);
  if (!file) return file.error();
  if (auto written = file.value()->append(bytes_of_text(text)); !written) return written;
  return file.value()->sync();
}

Result<> CheckpointDirectory::commit(const Manifest& manifest) {
  const std::string from = saving(manifest.step), to = path_of(manifest.step);
  const std::string text = to_json(manifest);
  const std::string sum = fmt::format("{}  {}\n", sha256_hex(bytes_of_text(text)), kManifestName);
  const auto known = steps();
  if (!known) return known.error();
  const bool is_there = std::ranges::binary_search(known.value(), manifest.step);

  if (auto done = write_durably(fmt::format("{}/{}", from, kManifestName), text); !done)
    return done;
  if (auto done = write_durably(fmt::format("{}/{}", from, kManifestSumName), sum); !done)
    return done;
  if (auto synced = disk_.sync_directory(from); !synced) return synced;
  if (auto named = is_there ? disk_.exchange(from, to) : disk_.rename(from, to); !named)
    return named;
  if (auto synced = disk_.sync_directory(path_); !synced) return synced;
  return is_there ? remove_tree(disk_, from) : Result<>(Done{});
}

Result<> CheckpointDirectory::abandon(std::uint64_t step) {
  const auto entries = disk_.list(path_);
  if (!entries) return entries.error();
  const auto begun =
      std::ranges::find(entries.value(), numbered(kSaving, step), &Disk::Entry::name);
  return begun == entries.value().end() ? Result<>(Done{}) : remove_tree(disk_, saving(step));
}

Result<> CheckpointDirectory::prune(const Keep& keep, const std::set<std::uint64_t>& verified) {
  const auto known = steps();
  if (!known) return known.error();
  // A step that is half removed must not have the name of a committed one, not even after a crash:
  // all of them lose their names durably before any of them loses a file.
  std::vector<std::string> leaving;
  for (const std::uint64_t step : superseded(known.value(), keep, verified)) {
    leaving.push_back(path_ + "/" + numbered(kRemoving, step));
    if (auto renamed = disk_.rename(path_of(step), leaving.back()); !renamed) return renamed;
  }
  if (leaving.empty()) return Done{};
  if (auto synced = disk_.sync_directory(path_); !synced) return synced;
  for (const std::string& directory : leaving)
    if (auto removed = remove_tree(disk_, directory); !removed) return removed;
  return Done{};
}

// The name of a new folder for steps that are set aside.
Result<std::string> CheckpointDirectory::free_aside() const {
  const auto entries = disk_.list(path_);
  if (!entries) return entries.error();
  for (int number = 1;; ++number) {
    std::string name = fmt::format("{}{}", kAside, number);
    if (std::ranges::find(entries.value(), name, &Disk::Entry::name) == entries.value().end())
      return name;
  }
}

// The oldest go first: after a crash on the way the newest are still where a run looks for them.
Result<std::string> CheckpointDirectory::set_aside() {
  const auto known = steps();
  if (!known) return known.error();
  if (known.value().empty()) return std::string();
  const auto name = free_aside();
  if (!name) return name;
  std::string folder = path_ + "/" + name.value();
  if (auto made = disk_.make_directory(folder); !made) return made.error();
  for (const std::uint64_t step : known.value()) {
    auto moved = disk_.rename(path_of(step), fmt::format("{}/{}", folder, name_of_step(step)));
    if (!moved) return moved.error();
  }
  if (auto synced = disk_.sync_directory(folder); !synced) return synced.error();
  if (auto synced = disk_.sync_directory(path_); !synced) return synced.error();
  return folder;
}

}  // namespace paceline::checkpoint
