#include "paceline/core/schedule/policies/policy_catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "paceline/core/base/check.h"
#include "paceline/core/base/suggestion.h"

namespace paceline::schedule {
namespace {

std::vector<Policy> sorted_by_what_they_know() {
  std::vector<Policy> all = built_in_policies();
  std::ranges::stable_sort(all, {}, [](const Policy& policy) {
    return std::tuple(policy.chooses_codecs, policy.is_measured);
  });
  return all;
}

}  // namespace

std::span<const Policy> policies() {
  static const std::vector<Policy> all = sorted_by_what_they_know();
  return all;
}

const Policy& policy(std::string_view name) {
  const auto found = std::ranges::find(policies(), name, &Policy::name);
  if (found != policies().end()) return *found;
  std::vector<std::string> names;
  for (const Policy& known : policies()) names.emplace_back(known.name);
  throw_misuse(fmt::format("there is no schedule '{}'; there are {}{}", name,
                           fmt::join(names, ", "), suggestion(name, names)));
}

}  // namespace paceline::schedule
