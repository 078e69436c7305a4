// A user's choice among the entries of a catalogue: "NAME" or "NAME:SETTING=VALUE,SETTING=VALUE".
// An entry is a value with `name` (a string_view) and `settings` (a vector of Setting).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/core/settings/settings.h"

namespace paceline {

// The failure for a name that no entry has. `kind`: the entries' common noun, such as "solver".
Failure unknown_name(std::string_view kind, std::string_view name,
                     const std::vector<std::string>& known);

template <typename Entry>
struct NamedChoice {
  Entry entry;
  Settings settings;

  std::string text() const {  // "admm:penalty=0.003,passes=10", with all settings
    const std::string values = text_of(entry.settings, settings);
    return std::string(entry.name) + (values.empty() ? "" : ":" + values);
  }
};

// A failure (misuse) says what is wrong and lists the valid names.
template <typename Entry>
Result<NamedChoice<Entry>> parse_named(std::string_view kind, std::string_view text,
                                       const std::vector<Entry>& catalogue) {
  const auto [name, texts, has_settings] = split_name(text);
  const auto found = std::ranges::find(catalogue, name, &Entry::name);
  if (found == catalogue.end()) {
    std::vector<std::string> names;
    for (const Entry& one : catalogue) names.emplace_back(one.name);
    return unknown_name(kind, name, names);
  }
  NamedChoice<Entry> choice{*found, standard_settings(found->settings)};
  if (!has_settings) return choice;
  auto settings = parse_settings(name, found->settings, texts);
  if (!settings) return settings.error();
  choice.settings = *std::move(settings);
  return choice;
}

}  // namespace paceline
