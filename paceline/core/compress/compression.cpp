#include "paceline/core/compress/compression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "paceline/core/base/suggestion.h"
#include "paceline/core/compress/cast_average.h"

namespace paceline::compress {
namespace {

const Setting& min_compress_bytes() {
  static const Setting setting{.name = "min_compress_bytes",
                               .standard = 65536,
                               .least = 0,
                               .most = 0x1p40,
                               .meaning = "shorter tensors travel whole",
                               .whole = true};
  return setting;
}

Failure misuse(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

std::vector<std::string> names_of(const auto& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.emplace_back(value.name);
  return names;
}

std::string text_of(const Setting& setting, double value) {
  return setting.words.empty() ? fmt::format("{}", value)
                               : std::string(setting.words[static_cast<std::size_t>(value)]);
}

Result<double> parse_value(const Method& method, const Setting& setting, std::string_view text) {
  if (!setting.words.empty()) {
    const auto found = std::ranges::find(setting.words, text);
    if (found != setting.words.end()) return static_cast<double>(found - setting.words.begin());
    return misuse(fmt::format("{} of {} is {}, not '{}'{}", setting.name, method.name,
                              fmt::join(setting.words, " or "), text,
                              suggestion(text, {setting.words.begin(), setting.words.end()})));
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = error == std::errc() && end == text.data() + text.size();
  // Written so that NaN is refused.
  if (!number || !(value >= setting.least && value <= setting.most) ||
      (setting.whole && value != std::floor(value))) {
    return misuse(fmt::format("{} of {} is a {} from {} to {}, not '{}'", setting.name, method.name,
                              setting.whole ? "whole number" : "number", setting.least,
                              setting.most, text));
  }
  return value;
}

// One "SETTING=VALUE".
Result<> take(Compression& compression, std::vector<std::string>& seen, std::string_view text) {
  const Method& method = compression.method;
  const std::size_t sign = text.find('=');
  const std::string name(text.substr(0, sign));
  const auto found = std::ranges::find(method.settings, name, &Setting::name);
  const bool common = name == min_compress_bytes().name;
  if (found == method.settings.end() && !common) {
    std::vector<std::string> names = names_of(method.settings);
    names.emplace_back(min_compress_bytes().name);
    return misuse(fmt::format("{} has no setting '{}'; it has {}{}", method.name, name,
                              fmt::join(names, ", "), suggestion(name, names)));
  }
  if (sign == std::string_view::npos)
    return misuse(
        fmt::format("setting {} of {} has no value: write {}=...", name, method.name, name));
  if (std::ranges::find(seen, name) != seen.end())
    return misuse(fmt::format("setting {} of {} is given twice", name, method.name));
  seen.push_back(name);
  const auto value =
      parse_value(method, common ? min_compress_bytes() : *found, text.substr(sign + 1));
  if (!value) return value.error();
  if (common) {
    compression.min_compress_bytes = static_cast<std::size_t>(value.value());
  } else {
    compression.settings.values[static_cast<std::size_t>(found - method.settings.begin())].value =
        value.value();
  }
  return Done();
}

}  // namespace

bool Compression::compresses(const Part& part) const {
  return part.elements() * sizeof(float) >= min_compress_bytes && part.rows > 1 && part.columns > 1;
}

std::unique_ptr<Averaging> Compression::averaging(const Part& part) const {
  if (compresses(part)) return method.make(part, settings);
  return method.make_small != nullptr ? method.make_small(part, settings)
                                      : cast_average(part, Dtype::f32);
}

std::string Compression::text() const {
  std::string text(method.name);
  char before = ':';
  for (std::size_t i = 0; i < method.settings.size(); ++i) {
    const Setting& setting = method.settings[i];
    text +=
        fmt::format("{}{}={}", before, setting.name, text_of(setting, settings.values[i].value));
    before = ',';
  }
  return text +
         fmt::format("{}{}={}", before, compress::min_compress_bytes().name, min_compress_bytes);
}

Result<Compression> parse_compression(std::string_view text, const Catalogue& methods) {
  const std::size_t colon = text.find(':');
  const std::string name(text.substr(0, colon));
  const Method* const method = find(methods, name);
  if (method == nullptr) {
    const std::vector<std::string> names = names_of(methods);
    return misuse(fmt::format("there is no compression '{}'; there are {}{}", name,
                              fmt::join(names, ", "), suggestion(name, names)));
  }
  Compression compression{*method, {}};
  for (const Setting& setting : method->settings)
    compression.settings.values.push_back({setting.name, setting.standard});
  if (colon == std::string_view::npos) return compression;
  std::vector<std::string> seen;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const std::size_t comma = rest.find(',');
    if (const auto taken = take(compression, seen, rest.substr(0, comma)); !taken)
      return taken.error();
    if (comma == std::string_view::npos) return compression;
    rest = rest.substr(comma + 1);
  }
}

}  // namespace paceline::compress
