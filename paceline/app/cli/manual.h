// Man pages and shell completions, made from the options that the command really has.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace paceline::cli {

// A subcommand as its own --help describes it.
struct Described {
  std::string_view name;
  std::string_view summary;
  const CLI::App* app = nullptr;
};

// The page in man's language (man 7 man). `date` stands in the footer, such as 2026-11-21.
std::string man_page(const Described& subcommand, std::string_view version, std::string_view date);
// The page of `paceline` itself, which lists the subcommands.
std::string man_page(std::span<const Described> subcommands, std::string_view version,
                     std::string_view date);

// A script that completes subcommands and their options. REQUIRES: `shell` is one of shells().
const std::vector<std::string>& shells();  // bash, zsh, fish
std::string completion(std::string_view shell, std::span<const Described> subcommands);

}  // namespace paceline::cli
