#include "paceline/core/membership/environment/node_list.h"

#include <fmt/format.h>

#include <optional>

#include "paceline/core/base/number.h"

namespace paceline::membership {
namespace {

constexpr std::size_t kMostNodes = 1 << 16;

Failure wrong_list(std::string_view list, std::string_view part, std::string_view what) {
  return {Fault::misuse,
          fmt::format("the node list \"{}\" is wrong at \"{}\": {}; Slurm writes n[01-03,7],login",
                      list, part, what),
          {}};
}

// Takes the part up to the next comma outside of brackets off `rest`, and returns it.
std::string_view next_part(std::string_view& rest) {
  int depth = 0;
  std::size_t at = 0;
  for (; at < rest.size() && (rest[at] != ',' || depth > 0); ++at) {
    depth += rest[at] == '[' ? 1 : rest[at] == ']' ? -1 : 0;
  }
  const auto part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return part;
}

// "01-03" -> 01 02 03, as wide as its first number is written.
Result<std::vector<std::string>> parse_range(std::string_view list, std::string_view range) {
  const auto dash = range.find('-');
  const auto low_text = range.substr(0, dash),
             high_text = dash == std::string_view::npos ? low_text : range.substr(dash + 1);
  const auto low = number_in<std::size_t>(low_text), high = number_in<std::size_t>(high_text);
  if (!low || !high)
    return wrong_list(list, range, "a bracket holds numbers and ranges such as 01-03");
  if (*high < *low) return wrong_list(list, range, "the range goes down");
  if (*high - *low >= kMostNodes)
    return wrong_list(list, range, fmt::format("more than {} nodes", kMostNodes));
  std::vector<std::string> result;
  for (auto value = *low; value <= *high; ++value)
    result.push_back(fmt::format("{:0{}}", value, low_text.size()));
  return result;
}

// The names that a part with brackets stands for.
Result<std::vector<std::string>> expand(std::string_view list, std::string_view part) {
  const auto open = part.find('['), close = part.find(']');
  if (open == std::string_view::npos && close == std::string_view::npos)
    return std::vector{std::string(part)};
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return wrong_list(list, part, "a bracket is not closed, or not opened");
  }
  auto tails = expand(list, part.substr(close + 1));
  if (!tails) return tails;
  std::vector<std::string> result;
  if (part[close - 1] == ',') return wrong_list(list, part, "a number is missing");
  for (auto ranges = part.substr(open + 1, close - open - 1); !ranges.empty() || result.empty();) {
    const auto numbers = parse_range(list, next_part(ranges));
    if (!numbers) return numbers.error();
    for (const std::string& one : numbers.value()) {
      for (const std::string& tail : tails.value())
        result.push_back(fmt::format("{}{}{}", part.substr(0, open), one, tail));
    }
    if (result.size() > kMostNodes)
      return wrong_list(list, part, fmt::format("more than {} nodes", kMostNodes));
  }
  return result;
}

}  // namespace

Result<std::vector<std::string>> parse_node_list(std::string_view text) {
  std::vector<std::string> nodes;
  if (text.ends_with(',')) return wrong_list(text, text, "a name is missing");
  for (auto rest = text; !rest.empty() || nodes.empty();) {
    const auto part = next_part(rest);
    if (part.empty()) return wrong_list(text, part, "a name is missing");
    auto names = expand(text, part);
    if (!names) return names;
    nodes.insert(nodes.end(), names->begin(), names->end());
  }
  return nodes;
}

Result<std::vector<int>> parse_tasks_per_node(std::string_view text) {
  std::vector<int> tasks;
  for (auto rest = text; !rest.empty() || tasks.empty();) {
    const auto part = next_part(rest);
    const auto open = part.find("(x");
    const bool repeated = open != std::string_view::npos && part.ends_with(')');
    const auto count = number_in<std::size_t>(part.substr(0, open));
    const auto times = repeated
                           ? number_in<std::size_t>(part.substr(open + 2, part.size() - open - 3))
                           : std::optional<std::size_t>(1);
    if (!count || !times || (open != std::string_view::npos && !repeated) || *count > kMostNodes ||
        *times > kMostNodes) {
      return Failure{
          Fault::misuse,
          fmt::format("\"{}\" does not tell the tasks of each node; Slurm writes 2(x3),1", text),
          {}};
    }
    tasks.insert(tasks.end(), *times, static_cast<int>(*count));
  }
  return tasks;
}

}  // namespace paceline::membership
