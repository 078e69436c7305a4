#include "paceline/core/server/sparse/sparse_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace paceline::server {
namespace {

constexpr std::string_view kPer = "per";

enum AdagradRowSetting { kRate, kRateDecay, kWeightDecay, kEpsilon };

template <typename T>
void step_row(const RuleStep& step) {
  T* const value = reinterpret_cast<T*>(step.value);
  const T* const gradient = reinterpret_cast<const T*>(step.gradient);
  T& squares = *reinterpret_cast<T*>(step.slots[0]);
  T sum = 0;
  for (std::size_t i = 0; i < step.count; ++i) sum += gradient[i] * gradient[i];
  squares += sum / static_cast<T>(step.count);
  const double decay = 1 + static_cast<double>(step.number - 1) * step.settings[kRateDecay];
  const T rate = static_cast<T>(step.settings[kRate] / decay) /
                 (std::sqrt(squares) + static_cast<T>(step.settings[kEpsilon]));
  for (std::size_t i = 0; i < step.count; ++i) value[i] -= rate * gradient[i];
}

void step_adagrad_row(const RuleStep& step) {
  step.dtype == Dtype::f64 ? step_row<double>(step) : step_row<float>(step);
}

std::vector<Rule> sparse_rules() {
  std::vector<Rule> rules;
  for (Rule& rule : built_in_rules()) {
    if (rule.name == "adagrad")
      rule.settings.push_back({.name = kPer,
                               .standard = 0,
                               .meaning = "what has a sum of squares of its own",
                               .whole = true,
                               .words = {"element", "row"}});
    if (rule.name == "adagrad" || rule.name == "adam" || rule.name == "sgd")
      rules.push_back(std::move(rule));
  }
  return rules;
}

// Settings by which a step would move rows that are not pushed.
std::string complaint(const RuleChoice& choice) {
  for (const std::string_view name : {"momentum", "weight_decay"}) {
    const auto& known = choice.entry.settings;
    if (std::ranges::find(known, name, &Setting::name) == known.end()) continue;
    if (choice.settings[name] != 0)
      return fmt::format(
          "{} of {} is {}: it would move rows that nobody pushes; leave it at 0 in a sparse table",
          name, choice.entry.name, choice.settings[name]);
  }
  return {};
}

}  // namespace

std::string SparseRule::text() const {
  return choice.text();
}

Result<SparseRule> parse_sparse_rule(std::string_view text) {
  auto choice = parse_named("rule of sparse tables", text, sparse_rules());
  if (!choice) return choice.error();
  if (const std::string why = complaint(*choice); !why.empty())
    return Failure{Fault::misuse, why, {}};
  SparseRule rule{*std::move(choice)};
  rule.per_row = rule.choice.entry.name == "adagrad" && rule.choice.settings.on(kPer);
  rule.slots = rule.choice.entry.name == "sgd" ? 0 : rule.choice.entry.slots;
  rule.step = rule.per_row ? step_adagrad_row : rule.choice.entry.step;
  return rule;
}

}  // namespace paceline::server
