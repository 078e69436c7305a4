#include "paceline/core/settings/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "paceline/core/base/check.h"
#include "paceline/core/base/number.h"
#include "paceline/core/base/suggestion.h"

namespace paceline {
namespace {

Failure misuse(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

constexpr std::string_view kAuto = "auto";
constexpr std::array<std::string_view, 2> kSwitch = {"off", "on"}, kSwitchInDigits = {"0", "1"};

const Settings::Value& value_of(const Settings& settings, std::string_view name) {
  const auto found = std::ranges::find(settings.values, name, &Settings::Value::name);
  PACELINE_CHECK(found != settings.values.end(), "there is no setting '{}'", name);
  return *found;
}

}  // namespace

double Settings::operator[](std::string_view name) const {
  return value_of(*this, name).value;
}

const std::string& Settings::text(std::string_view name) const {
  return value_of(*this, name).text;
}

double Settings::or_auto(std::string_view name, double automatic) const {
  const double value = (*this)[name];
  return std::isnan(value) ? automatic : value;
}

Settings standard_settings(const std::vector<Setting>& settings) {
  Settings values;
  for (const Setting& setting : settings)
    values.values.push_back({setting.name, setting.standard, std::string(setting.standard_text)});
  return values;
}

std::string text_of(const Setting& setting, const Settings::Value& value) {
  if (setting.is_text()) return value.text;
  if (setting.may_be_auto && std::isnan(value.value)) return std::string(kAuto);
  return setting.words.empty() ? fmt::format("{}", value.value)
                               : std::string(setting.words[static_cast<std::size_t>(value.value)]);
}

std::string text_of(const std::vector<Setting>& settings, const Settings& values) {
  std::string text;
  for (std::size_t i = 0; i < settings.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", settings[i].name,
                        text_of(settings[i], values.values[i]));
  return text;
}

NameAndSettings split_name(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, {}, false};
  return {text.substr(0, colon), text.substr(colon + 1), true};
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  return parts;
}

Result<Settings::Value> parse_setting(std::string_view owner, const Setting& setting,
                                      std::string_view text) {
  if (setting.is_text()) {
    if (text.empty()) return misuse(fmt::format("{} of {} is empty", setting.name, owner));
    return Settings::Value{setting.name, setting.standard, std::string(text)};
  }
  if (!setting.words.empty()) {
    const auto found = std::ranges::find(setting.words, text);
    if (found != setting.words.end())
      return Settings::Value{setting.name, static_cast<double>(found - setting.words.begin())};
    // Many programs write switches as digits.
    const auto digit = std::ranges::find(kSwitchInDigits, text);
    if (digit != kSwitchInDigits.end() && std::ranges::equal(setting.words, kSwitch))
      return Settings::Value{setting.name, static_cast<double>(digit - kSwitchInDigits.begin())};
    return misuse(fmt::format("{} of {} is {}, not '{}'{}", setting.name, owner,
                              fmt::join(setting.words, " or "), text,
                              suggestion(text, {setting.words.begin(), setting.words.end()})));
  }
  if (setting.may_be_auto && text == kAuto) return Settings::Value{setting.name, kAutomatic};
  const auto value = number_in<double>(text);
  // The condition is written so that it refuses NaN.
  if (!value || !(*value >= setting.least && *value <= setting.most) ||
      (setting.whole && *value != std::floor(*value))) {
    return misuse(fmt::format("{} of {} is a {} from {} to {}{}, not '{}'", setting.name, owner,
                              setting.whole ? "whole number" : "number", setting.least,
                              setting.most, setting.may_be_auto ? ", or auto" : "", text));
  }
  return Settings::Value{setting.name, *value};
}

Result<std::vector<SettingText>> split_settings(std::string_view owner, std::string_view text,
                                                const std::vector<std::string>& known) {
  std::vector<SettingText> found;
  for (const std::string_view one : split_at(text, ',')) {
    const std::size_t sign = one.find('=');
    const std::string_view name = one.substr(0, sign);
    if (std::ranges::find(known, name) == known.end()) {
      if (known.empty())
        return misuse(fmt::format("{} has no setting '{}'; it has none", owner, name));
      return misuse(fmt::format("{} has no setting '{}'; it has {}{}", owner, name,
                                fmt::join(known, ", "), suggestion(name, known)));
    }
    if (sign == std::string_view::npos)
      return misuse(fmt::format("setting {} of {} has no value: write {}=...", name, owner, name));
    if (std::ranges::find(found, name, &SettingText::name) != found.end())
      return misuse(fmt::format("setting {} of {} is given twice", name, owner));
    found.push_back({name, one.substr(sign + 1)});
  }
  return found;
}

Result<Settings> parse_settings(std::string_view owner, const std::vector<Setting>& settings,
                                std::string_view text) {
  std::vector<std::string> names;
  for (const Setting& setting : settings) names.emplace_back(setting.name);
  const auto texts = split_settings(owner, text, names);
  if (!texts) return texts.error();
  Settings values = standard_settings(settings);
  for (const SettingText& one : texts.value()) {
    const auto at = static_cast<std::size_t>(std::ranges::find(settings, one.name, &Setting::name) -
                                             settings.begin());
    auto value = parse_setting(owner, settings[at], one.value);
    if (!value) return value.error();
    values.values[at] = *std::move(value);
  }
  return values;
}

}  // namespace paceline
