// Rules by which a server turns pushes into new values, and the catalogue of them (docs/server/).
//
// A rule is an optimizer over flat memory: it knows neither workers nor ranges, and treats each
// element alone, so that the bits do not depend on how a table is cut. Each push carries the
// present values of the settings (a rate that a schedule lowers). CMake lists rules/*.cpp and
// generates built_in_rules(); file <name>.cpp defines `Rule <name>()` in namespace
// paceline::server::catalogue. The formulas are those of torch::optim.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/settings/named_choice.h"

namespace paceline::server {

// One step of a rule. All memory is the caller's, holds `count` elements of `dtype` and is aligned
// to them.
struct RuleStep {
  Dtype dtype = Dtype::f32;  // f32 or f64, in which the rule computes
  std::size_t count = 0;
  std::byte* value = nullptr;
  const std::byte* gradient = nullptr;     // a mean of gradients; a sum for `sums`
  std::span<std::byte* const> slots = {};  // Rule::slots arrays, zeros before the first step
  std::int64_t number = 1;                 // steps of these elements so far, with this one
  std::span<const double> settings = {};   // a value for each of Rule::settings
};

// The state of a rule for all elements of a table. A value.
struct RuleState {
  static constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;  // a double counts them
  std::int64_t steps = 0;                                            // that the rule has made
  std::vector<std::vector<std::byte>> slots = {};                    // Rule::slots of them, or none
};

struct Rule {
  std::string_view name;
  std::string_view summary;  // one line
  std::vector<Setting> settings = {};
  int slots = 0;
  bool sums = false;  // pushes are added as they are: neither weighted nor divided
  void (*step)(const RuleStep&) = nullptr;
};

std::vector<Rule> built_in_rules();  // sorted by name

using RuleChoice = NamedChoice<Rule>;
// Parses "NAME" or "NAME:SETTING=VALUE,SETTING=VALUE". A failure (misuse) says what is wrong and
// lists the valid names.
Result<RuleChoice> parse_rule(std::string_view text);

// The settings' values in the order of the rule's settings, as RuleStep has them.
std::vector<double> values_of(const RuleChoice& choice);

// --- for entries ---------------------------------------------------------------------------------

// The setting that all rules but `add` have.
Setting rate_setting(double standard);
Setting weight_decay_setting(double standard);
Setting epsilon_setting(double standard);

// The gradient with the decay of the values, if there is any.
template <typename T>
T decayed(T gradient, T decay, T value) {
  return decay == 0 ? gradient : gradient + decay * value;
}

// Calls body(value, gradient, slots) for each element, with references to float or double; slots[j]
// is the element's state in slot j.
template <typename T, typename Body>
void for_each_element_of(const RuleStep& step, const Body& body) {
  constexpr std::size_t kMostSlots = 3;
  T* const value = reinterpret_cast<T*>(step.value);
  const T* const gradient = reinterpret_cast<const T*>(step.gradient);
  T* slots[kMostSlots] = {};
  for (std::size_t j = 0; j < step.slots.size(); ++j)
    slots[j] = reinterpret_cast<T*>(step.slots[j]);
  for (std::size_t i = 0; i < step.count; ++i)
    body(value[i], gradient[i], [&](std::size_t j) -> T& { return slots[j][i]; });
}
template <typename Body>
void for_each_element(const RuleStep& step, const Body& body) {
  step.dtype == Dtype::f64 ? for_each_element_of<double>(step, body)
                           : for_each_element_of<float>(step, body);
}

}  // namespace paceline::server
