#include "paceline/core/compress/methods/compression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "paceline/core/base/suggestion.h"
#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/compress/averaging/cast_average.h"

namespace paceline::compress {
namespace {

// A setting that every method has.
struct Common {
  Setting setting;
  std::size_t Compression::*value;
};
const std::vector<Common>& common_settings() {
  static const std::vector<Common> all = {
      {{.name = "min_compress_bytes",
        .standard = 65536,
        .least = 0,
        .most = 0x1p40,
        .meaning = "shorter tensors travel uncompressed",
        .whole = true},
       &Compression::min_compress_bytes},
      {{.name = "choose_every",
        .standard = 200,
        .least = 1,
        .most = 1e9,
        .meaning = "steps between two choices from a setting's values",
        .whole = true},
       &Compression::choose_every}};
  return all;
}

Failure misuse(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

std::vector<std::string> names_of(const auto& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.emplace_back(value.name);
  return names;
}

Result<> take_menu(Compression& compression, std::size_t setting, std::string_view texts) {
  const Method& method = compression.method;
  const std::string_view name = method.settings[setting].name;
  if (!compression.menu.empty())
    return misuse(
        fmt::format("{} has several values, and so has another setting: give one of "
                    "them a single value",
                    name));
  if (method.outcome != Method::Outcome::mean || !method.shows_alone)
    return misuse(
        fmt::format("{} of {} has one value, not '{}': several values need a method whose loss "
                    "shows on a single rank's gradient, such as top_k, power_sgd or qsgd",
                    name, method.name, texts));
  for (const std::string_view text : split_at(texts, '/')) {
    const auto value = parse_setting(method.name, method.settings[setting], text);
    if (!value) return value.error();
    Settings& settings = compression.menu.emplace_back(compression.settings);
    settings.values[setting] = value.value();
    if (std::ranges::count(compression.menu, settings) > 1)
      return misuse(fmt::format("{} of {} has {} twice in '{}'", name, method.name, text, texts));
  }
  compression.settings = compression.menu.front();
  return Done();
}

Result<> take_own(Compression& compression, std::size_t setting, std::string_view text) {
  const Setting& own = compression.method.settings[setting];
  if (own.words.empty() && text.find('/') != std::string_view::npos)
    return take_menu(compression, setting, text);
  const auto value = parse_setting(compression.method.name, own, text);
  if (!value) return value.error();
  compression.settings.values[setting] = value.value();
  for (Settings& settings : compression.menu) settings.values[setting] = value.value();
  return Done();
}

Result<> take_common(Compression& compression, const Common& common, std::string_view text) {
  const auto value = parse_setting(compression.method.name, common.setting, text);
  if (!value) return value.error();
  compression.*common.value = static_cast<std::size_t>(value.value().value);
  return Done();
}

Result<> take(Compression& compression, const SettingText& text) {
  const auto& settings = compression.method.settings;
  for (const Common& common : common_settings())
    if (common.setting.name == text.name) return take_common(compression, common, text.value);
  const auto own = std::ranges::find(settings, text.name, &Setting::name);
  return take_own(compression, static_cast<std::size_t>(own - settings.begin()), text.value);
}

std::vector<std::string> names_of_settings(const Method& method) {
  std::vector<std::string> names = names_of(method.settings);
  for (const Common& one : common_settings()) names.emplace_back(one.setting.name);
  return names;
}

// The setting's value, or all values that the menu has for it.
std::string values_text(const Compression& compression, std::size_t setting) {
  const Setting& own = compression.method.settings[setting];
  std::string text = text_of(own, compression.settings.values[setting]);
  for (const Settings& settings : compression.menu) {
    const Settings::Value& value = settings.values[setting];
    if (value != compression.settings.values[setting]) text += "/" + text_of(own, value);
  }
  return text;
}

}  // namespace

bool Compression::compresses(const AveragedTensor& part) const {
  return part.elements() * sizeof(float) >= min_compress_bytes && part.rows > 1 && part.columns > 1;
}

bool Compression::leaves_whole(const AveragedTensor& part, int offer) const {
  return compresses(part) ? is_whole(offer) : !method.shortens_small;
}

std::unique_ptr<Averaging> Compression::averaging(const AveragedTensor& part, int offer) const {
  if (compresses(part)) {
    if (is_whole(offer)) return whole_average(part);
    return method.make(part, menu.empty() ? settings : menu.at(static_cast<std::size_t>(offer)));
  }
  return method.make_small != nullptr ? method.make_small(part, settings)
                                      : cast_average(part, Dtype::f32);
}

std::string Compression::text() const {
  std::string text(method.name);
  char before = ':';
  for (std::size_t i = 0; i < method.settings.size(); ++i) {
    text += fmt::format("{}{}={}", before, method.settings[i].name, values_text(*this, i));
    before = ',';
  }
  text += fmt::format("{}min_compress_bytes={}", before, min_compress_bytes);
  if (!menu.empty()) text += fmt::format(",choose_every={}", choose_every);
  return text;
}

std::string Compression::text_of_offer(int offer) const {
  Compression one = *this;
  if (!menu.empty()) one.settings = menu.at(static_cast<std::size_t>(offer));
  one.menu.clear();
  return one.text();
}

Result<Compression> parse_compression(std::string_view text, const Catalogue& methods) {
  const auto [name, texts, has_settings] = split_name(text);
  const Method* const method = find(methods, name);
  if (method == nullptr) {
    const std::vector<std::string> names = names_of(methods);
    return misuse(fmt::format("there is no compression '{}'; there are {}{}", name,
                              fmt::join(names, ", "), suggestion(name, names)));
  }
  Compression compression{*method, standard_settings(method->settings)};
  if (!has_settings) return compression;
  const auto given = split_settings(name, texts, names_of_settings(*method));
  if (!given) return given.error();
  for (const SettingText& one : given.value())
    if (const auto taken = take(compression, one); !taken) return taken.error();
  if (compression.menu.empty() &&
      std::ranges::find(given.value(), "choose_every", &SettingText::name) != given.value().end())
    return misuse(fmt::format(
        "choose_every says how often {} chooses from a setting's values, but no setting "
        "has several values: give them, as in \"power_sgd:rank=4/1/2\"",
        name));
  return compression;
}

bool needs_whole_tensors(std::string_view text) {
  static const Catalogue methods = built_in_methods();  // plans are cut thousands of times
  const Method* const method = find(methods, split_name(text).name);
  return method != nullptr && method->needs_whole_tensors;
}

}  // namespace paceline::compress
