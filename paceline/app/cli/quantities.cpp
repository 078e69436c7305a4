#include "paceline/app/cli/quantities.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "paceline/app/cli/suggestion.h"
#include "paceline/core/base/check.h"

namespace paceline::cli {
namespace {

template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> seconds_of_unit(std::string_view unit) {
  if (unit.empty() || unit == "s") return 1.0;
  if (unit == "ms") return 1e-3;
  if (unit == "min") return 60.0;
  if (unit == "h") return 3600.0;
  return std::nullopt;
}

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
