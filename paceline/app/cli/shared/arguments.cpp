#include "paceline/app/cli/shared/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "paceline/core/base/check.h"
#include "paceline/core/base/suggestion.h"

namespace paceline::cli {
namespace {

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// "--grace=2" -> "--grace", "-n4" -> "-n"
std::string name_in(const std::string& argument) {
  return argument.starts_with("--") ? argument.substr(0, argument.find('='))
                                    : argument.substr(0, 2);
}

}  // namespace

bool parse(CLI::App& app, std::vector<std::string> words) {
  std::ranges::reverse(words);  // CLI11 expects them in reverse
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw_misuse(error.what());
  }
  return true;
}

SplitCommand split_command(const CLI::App& app, std::vector<std::string> arguments) {
  std::size_t at = 0;
  std::set<const CLI::Option*> seen;
  while (at < arguments.size()) {
    std::string& argument = arguments[at];
    if (argument == "-np" && app.get_option_no_throw("--np") != nullptr) argument = "--np";
    if (argument == "--" || argument.size() < 2 || argument[0] != '-') break;
    const std::string name = name_in(argument);
    const CLI::Option* option = app.get_option_no_throw(name);
    PACELINE_CHECK(option != nullptr, "unknown option {}{}", name,
                   suggestion(name, long_names(app)));
    const bool is_flag = option->get_items_expected_max() == 0;
    PACELINE_CHECK(seen.insert(option).second || is_flag || option->get_expected_max() > 1,
                   "{} is given twice ({}); give it once", name, option->get_name(false, true));
    PACELINE_CHECK(argument != name + "=", "{} needs a value", name);
    const bool value_follows = option->get_items_expected_max() > 0 && argument == name;
    PACELINE_CHECK(!value_follows || at + 1 < arguments.size(), "{} needs a value", name);
    at += value_follows ? 2 : 1;
  }
  const auto split = arguments.begin() + static_cast<std::ptrdiff_t>(at);
  const bool marked = split != arguments.end() && *split == "--";
  return {{arguments.begin(), split}, {split + (marked ? 1 : 0), arguments.end()}};
}

}  // namespace paceline::cli
