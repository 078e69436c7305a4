// Reads the values of options from text. Each function takes the option's name for its error text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/deadline.h"

namespace paceline::cli {

std::vector<std::string> split(const std::string& text, char at);  // "a,,b" -> "a", "", "b"

// THROWS Error (misuse) when it is no whole number or outside [least, most].
int parse_count(std::string_view option, const std::string& text, int least, int most);

// "0.5", "2": more than zero. THROWS Error (misuse)
double parse_positive(std::string_view option, const std::string& text);

// "1..64", "2,4,8", "8": in order, none twice. THROWS Error (misuse) as parse_count does, and for a
// range that ends before it begins.
std::vector<int> parse_counts(std::string_view option, const std::string& text, int least,
                              int most);

// "1.5" (seconds), "500ms", "90s", "10min", "2h"; more than zero. THROWS Error (misuse)
Clock::duration parse_duration(std::string_view option, const std::string& text);

// THROWS Error (misuse) when it is none of `allowed`.
std::string parse_choice(std::string_view option, const std::string& text,
                         const std::vector<std::string>& allowed);

// "4", "16KiB", "64MiB", "1GiB": bytes, more than zero. THROWS Error (misuse)
std::size_t parse_size(std::string_view option, const std::string& text);

// "1gbit", "200mbit" or, as bytes a second, "125MiB": bytes a second. THROWS Error (misuse).
double parse_bandwidth(std::string_view option, const std::string& text);
// "4..256MiB" goes from the first to the last by factors of 4; "4,1MiB,4MiB..64MiB" is a list. The
// order is kept. THROWS Error (misuse)
std::vector<std::size_t> parse_sizes(std::string_view option, const std::string& text);
// "4 B", "16 KiB", "1.5 MiB"
std::string size_text(std::size_t bytes);

// "a,b" -> a and b. THROWS Error (misuse) when one of them is empty.
std::vector<std::string> parse_list(std::string_view option, const std::string& text);

struct Address {
  std::string host;
  int port = 0;
  bool operator==(const Address&) const = default;
};
// "10.0.0.1:5000". THROWS Error (misuse)
Address parse_address(std::string_view option, const std::string& text);
// "127.0.0.1:5000", "localhost:0". THROWS Error (misuse), even for a valid address of another host.
Address parse_loopback_address(std::string_view option, const std::string& text);

}  // namespace paceline::cli
