#include "paceline/torch/checkpoint/item_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "paceline/core/base/base.h"

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

}  // namespace paceline::checkpointing
