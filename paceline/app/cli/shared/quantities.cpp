#include "paceline/app/cli/shared/quantities.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/number.h"
#include "paceline/core/base/suggestion.h"

namespace paceline::cli {
namespace {

std::optional<double> seconds_of_unit(std::string_view unit) {
  if (unit.empty() || unit == "s") return 1.0;
  if (unit == "ms") return 1e-3;
  if (unit == "min") return 60.0;
  if (unit == "h") return 3600.0;
  return std::nullopt;
}

constexpr std::pair<std::string_view, std::size_t> kSizeUnits[] = {
    {"GiB", std::size_t{1} << 30},
    {"MiB", std::size_t{1} << 20},
    {"KiB", std::size_t{1} << 10},
    {"B", 1},
};

std::size_t bytes_of_unit(std::string_view unit) {
  if (unit.empty()) return 1;
  for (const auto& [name, bytes] : kSizeUnits) {
    if (unit == name) return bytes;
  }
  return 0;
}

constexpr std::size_t kStepOfSizes = 4;

bool is_loopback(const std::string& host) {
  in_addr address = {};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

}  // namespace

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(at, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

int parse_count(std::string_view option, const std::string& text, int least, int most) {
  const auto value = number_in<long>(text);
  PACELINE_CHECK(value.has_value(), "{}: \"{}\" is not a whole number; give one from {} to {}",
                 option, text, least, most);
  PACELINE_CHECK(*value >= least, "{}: {} is too few; give a number from {} to {}", option, *value,
                 least, most);
  PACELINE_CHECK(*value <= most, "{}: {} is too many; give a number from {} to {}", option, *value,
                 least, most);
  return static_cast<int>(*value);
}

double parse_positive(std::string_view option, const std::string& text) {
  const auto value = number_in<double>(text);
  PACELINE_CHECK(value && std::isfinite(*value) && *value > 0,
                 "{}: \"{}\" is not a number above 0; give one such as 0.5", option, text);
  return *value;
}

std::vector<int> parse_counts(std::string_view option, const std::string& text, int least,
                              int most) {
  std::set<int> counts;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dots = part.find("..");
    const int first = parse_count(option, part.substr(0, dots), least, most);
    const int last =
        dots == std::string::npos ? first : parse_count(option, part.substr(dots + 2), least, most);
    PACELINE_CHECK(first <= last, "{}: {} ends before it begins; write it as {}..{}", option, part,
                   last, first);
    for (int count = first; count <= last; ++count) counts.insert(count);
  }
  return {counts.begin(), counts.end()};
}

Clock::duration parse_duration(std::string_view option, const std::string& text) {
  constexpr double kLongest = 10 * 365 * 86400.0;  // fits into the clock's nanoseconds
  const auto unit_at = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto value = number_in<double>(std::string_view(text).substr(0, unit_at));
  const auto unit = seconds_of_unit(std::string_view(text).substr(unit_at));
  PACELINE_CHECK(value && unit,
                 "{}: \"{}\" is not a duration; write it as 1.5, 500ms, 90s, 10min or 2h", option,
                 text);
  const double seconds = *value * *unit;
  PACELINE_CHECK(seconds > 0 && seconds <= kLongest,
                 "{}: {} is out of range; give more than zero, at most ten years", option, text);
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string parse_choice(std::string_view option, const std::string& text,
                         const std::vector<std::string>& allowed) {
  const bool known = std::find(allowed.begin(), allowed.end(), text) != allowed.end();
  PACELINE_CHECK(known, "{}: \"{}\" is not known; choose one of {}{}", option, text,
                 fmt::join(allowed, ", "), suggestion(text, allowed));
  return text;
}

std::vector<std::string> parse_list(std::string_view option, const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    PACELINE_CHECK(!parts.back().empty(),
                   "{}: \"{}\" has nothing in one of its places; separate values by single commas",
                   option, text);
    at = comma + 1;
  }
  return parts;
}

std::size_t parse_size(std::string_view option, const std::string& text) {
  constexpr std::size_t kMost = std::size_t{1} << 40;
  const auto unit_at = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto value = number_in<std::size_t>(std::string_view(text).substr(0, unit_at));
  const std::size_t unit = bytes_of_unit(std::string_view(text).substr(unit_at));
  PACELINE_CHECK(value && unit > 0,
                 "{}: \"{}\" is not a size; write it as 4, 16KiB, 64MiB or 1GiB (bytes without a "
                 "suffix)",
                 option, text);
  PACELINE_CHECK(*value > 0 && *value <= kMost / unit,
                 "{}: {} is out of range; give at least 1 byte, at most 1024GiB", option, text);
  return *value * unit;
}

double parse_bandwidth(std::string_view option, const std::string& text) {
  constexpr std::pair<std::string_view, double> kRates[] = {{"gbit", 1e9 / 8}, {"mbit", 1e6 / 8}};
  for (const auto& [unit, bytes] : kRates) {
    if (text.ends_with(unit))
      return parse_positive(option, text.substr(0, text.size() - unit.size())) * bytes;
  }
  return static_cast<double>(parse_size(option, text));
}

std::vector<std::size_t> parse_sizes(std::string_view option, const std::string& text) {
  std::vector<std::size_t> sizes;
  for (const std::string& part : parse_list(option, text)) {
    const auto dots = part.find("..");
    const std::size_t first = parse_size(option, part.substr(0, dots));
    const std::size_t last =
        dots == std::string::npos ? first : parse_size(option, part.substr(dots + 2));
    PACELINE_CHECK(first <= last, "{}: {} goes downwards; write the smaller size first", option,
                   part);
    for (std::size_t size = first; size <= last; size *= kStepOfSizes) sizes.push_back(size);
  }
  return sizes;
}

std::string size_text(std::size_t bytes) {
  for (const auto& [name, unit] : kSizeUnits) {
    if (bytes < unit) continue;
    const double value = static_cast<double>(bytes) / static_cast<double>(unit);
    return bytes % unit == 0 ? fmt::format("{} {}", bytes / unit, name)
                             : fmt::format("{:.4g} {}", value, name);
  }
  return "0 B";
}

Address parse_address(std::string_view option, const std::string& text) {
  const auto colon = text.rfind(':');
  const bool split = colon != std::string::npos && colon > 0;
  const auto port = split ? number_in<int>(std::string_view(text).substr(colon + 1)) : std::nullopt;
  PACELINE_CHECK(port && *port >= 0 && *port <= 65535,
                 "{}: \"{}\" is not HOST:PORT; write it as 127.0.0.1:5000 (port 0: any free one)",
                 option, text);
  const auto host = text.substr(0, colon);
  return {host == "localhost" ? "127.0.0.1" : host, *port};
}

Address parse_loopback_address(std::string_view option, const std::string& text) {
  const Address address = parse_address(option, text);
  PACELINE_CHECK(is_loopback(address.host),
                 "{0}: {1} is not this host's loopback address, and this run has no other host "
                 "(--hosts, --nnodes); use 127.0.0.1:{2}, or leave the option out",
                 option, address.host, address.port);
  return address;
}

}  // namespace paceline::cli
