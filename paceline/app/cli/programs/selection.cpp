#include "paceline/app/cli/programs/selection.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "paceline/core/base/check.h"
#include "paceline/core/base/suggestion.h"

namespace paceline::cli {
namespace {

using collective::Algorithm;
using collective::MixingGraph;

constexpr const char* kOption = "--operation";

bool is_file_of_edges(const std::string& name) {
  return name.starts_with('@');
}

Selection everything() {
  return {collective::built_in_algorithms(), collective::mixing_graphs()};
}

std::vector<std::string> operations_of(const Selection& selection) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : selection.algorithms)
    names.emplace_back(name_of(algorithm.operation));
  if (!selection.graphs.empty()) names.emplace_back(kNeighbours);
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

std::vector<std::string> names_of(const Selection& selection) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : selection.algorithms) names.emplace_back(algorithm.name);
  for (const MixingGraph& graph : selection.graphs) names.push_back(graph.name);
  return names;
}

void keep(Selection& selection, const std::string& name) {
  std::erase_if(selection.algorithms, [&](const Algorithm& a) { return a.name != name; });
  std::erase_if(selection.graphs, [&](const MixingGraph& graph) { return graph.name != name; });
}

Shown only_one(const Selection& selection) {
  if (selection.graphs.empty()) return selection.algorithms.front();
  return selection.graphs.front();
}

[[noreturn]] void refuse(const std::string& operation, const std::string& name,
                         const Selection& known) {
  Selection others = everything();
  keep(others, name);
  const std::vector<std::string> elsewhere = operations_of(others);
  throw_misuse(fmt::format("{} has no algorithm \"{}\"{}; there are {}", operation, name,
                           elsewhere.empty() ? suggestion(name, names_of(known))
                                             : fmt::format("; {} has it: {} {}", elsewhere.front(),
                                                           kOption, elsewhere.front()),
                           fmt::join(names_of(known), ", ")));
}

}  // namespace

Selection of_operation(const std::string& operation) {
  Selection selection = everything();
  if (operation.empty()) return selection;
  const std::vector<std::string> known = operations_of(selection);
  PACELINE_CHECK(std::ranges::find(known, operation) != known.end(),
                 "{}: no operation \"{}\" has programs{}; there are {}", kOption, operation,
                 suggestion(operation, known), fmt::join(known, ", "));
  std::erase_if(selection.algorithms,
                [&](const Algorithm& a) { return name_of(a.operation) != operation; });
  if (operation != kNeighbours) selection.graphs.clear();
  return selection;
}

Selection named(Selection selection, const std::string& name) {
  if (name.empty()) return selection;
  if (is_file_of_edges(name) && !selection.graphs.empty())
    return {{}, {collective::parse_mixing_graph(name).value()}};
  const std::vector<std::string> all = names_of(selection);
  keep(selection, name);
  PACELINE_CHECK(!names_of(selection).empty(), "--algorithm: there is no \"{}\"{}; there are {}",
                 name, suggestion(name, all), fmt::join(all, ", "));
  return selection;
}

Shown the_one(const std::string& operation, const std::string& name) {
  const Selection known = of_operation(operation);
  if (is_file_of_edges(name) && !known.graphs.empty())
    return collective::parse_mixing_graph(name).value();
  Selection found = known;
  keep(found, name);
  const std::vector<std::string> operations = operations_of(found);
  if (operations.empty() && !operation.empty()) refuse(operation, name, known);
  PACELINE_CHECK(!operations.empty(),
                 "there is no algorithm \"{}\"{}; `paceline programs` lists all", name,
                 suggestion(name, names_of(known)));
  PACELINE_CHECK(operations.size() == 1, "{} of which operation? Give {} with one of {}", name,
                 kOption, fmt::join(operations, ", "));
  return only_one(found);
}

}  // namespace paceline::cli
