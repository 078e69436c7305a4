#include "paceline/app/cli/shared/parse.h"

#include <fmt/format.h>

#include <algorithm>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/core/base/check.h"

namespace paceline::cli {

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

}  // namespace paceline::cli
