// The values of options, from text. Each function takes the option's name for its error text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/deadline.h"

namespace paceline::cli {

std::vector<std::string> split(const std::string& text, char at);  // "a,,b" -> "a", "", "b"

// THROWS Error (misuse) when it is no whole number or outside [least, most].
int parse_count(std::string_view option, const std::string& text, int least, int most);

// "1..64", "2,4,8", "8": in order, none twice. THROWS Error (misuse) as parse_count does, and for a
// range that ends before it begins.
std::vector<int> parse_counts(std::string_view option, const std::string& text, int least,
                              int most);

// "1.5" (seconds), "500ms", "90s", "10min", "2h"; more than zero. THROWS Error (misuse)
Clock::duration parse_duration(std::string_view option, const std::string& text);

// THROWS Error (misuse) when it is none of `allowed`.
std::string parse_choice(std::string_view option, const std::string& text,
                         const std::vector<std::string>& allowed);

struct Address {
  std::string host;
  int port = 0;
  bool operator==(const Address&) const = default;
};
// "10.0.0.1:5000". THROWS Error (misuse)
Address parse_address(std::string_view option, const std::string& text);
// "127.0.0.1:5000", "localhost:0". THROWS Error (misuse), also for any host but this one.
Address parse_loopback_address(std::string_view option, const std::string& text);

}  // namespace paceline::cli
