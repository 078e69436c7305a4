// Few cases that hold every pair of settings, where all of them take too long for a day.
//
// Such a list finds all failures that two settings make together (Cohen, Dalal, Parelius and
// Patton, The Combinatorial Design Approach to Automatic Test Generation, IEEE Software 1996).
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace paceline::test {

// The settings of a case, in the same order for all cases.
using Settings = std::vector<std::string>;

// Pairs of (number of the setting, its value).
using SettingPairs = std::set<std::pair<std::pair<std::size_t, std::string>,  //
                                        std::pair<std::size_t, std::string>>>;

inline SettingPairs pairs_of(const Settings& settings) {
  SettingPairs pairs;
  for (std::size_t i = 0; i < settings.size(); ++i)
    for (std::size_t j = i + 1; j < settings.size(); ++j)
      pairs.insert({{i, settings[i]}, {j, settings[j]}});
  return pairs;
}

// The places of the cases that are taken: each time one that has the most pairs that none of those
// before it has, until there are no such pairs.
inline std::vector<std::size_t> every_pair(std::span<const Settings> cases) {
  SettingPairs missing;
  for (const Settings& each : cases) missing.merge(pairs_of(each));
  std::vector<std::size_t> taken;
  while (!missing.empty()) {
    std::size_t best = 0, most = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      std::size_t gained = 0;
      for (const auto& pair : pairs_of(cases[i])) gained += missing.count(pair);
      if (gained > most) most = gained, best = i;
    }
    for (const auto& pair : pairs_of(cases[best])) missing.erase(pair);
    taken.push_back(best);
  }
  return taken;
}

}  // namespace paceline::test
