#include "paceline/app/cli/programs/selection.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/suggestion.h"
#include "paceline/core/collective/program/shapes.h"

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

using collective::Algorithm;
using collective::Shape;

std::vector<std::vector<int>> parse_groups(const std::string& text, int ranks) {
  std::vector<std::vector<int>> groups;
  std::vector<int> all;
  for (const std::string& host : split(text, '/')) {
    std::vector<int>& group = groups.emplace_back();
    for (const std::string& rank : split(host, ','))
      group.push_back(parse_count("--groups", rank, 0, ranks - 1));
    all.insert(all.end(), group.begin(), group.end());
  }
  std::ranges::sort(all);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto times = std::ranges::count(all, rank);
    PACELINE_CHECK(times == 1,
                   "--groups: rank {} is on {} hosts; put each of the {} ranks on one, as in "
                   "--ranks 4 --groups 0,1/2,3",
                   rank, times == 0 ? "none of the" : "several", ranks);
  }
  return groups;
}

std::vector<int> parse_dimensions(const std::string& text, int ranks) {
  std::vector<int> dimensions;
  long product = 1;
  for (const std::string& length : split(text, 'x')) {
    dimensions.push_back(parse_count("--dimensions", length, 1, kMostRanks));
    product *= dimensions.back();
    PACELINE_CHECK(product <= kMostRanks, "--dimensions: {} has more than {} ranks", text,
                   kMostRanks);
  }
  PACELINE_CHECK(
      product == ranks,
      "--dimensions: {} has {} ranks, and --ranks says {}; the product must be the ranks", text,
      product, ranks);
  return dimensions;
}

// A shape of as many ranks as wanted, or of nearly as many, that the algorithm has programs for.
std::optional<Shape> nearest_fit(const Algorithm& algorithm, int ranks) {
  for (int away = 0; away < ranks; ++away) {
    for (const int count : {ranks - away, ranks + away}) {
      const std::vector<Shape> shapes = collective::shapes_of(algorithm, count);
      if (!shapes.empty()) return shapes.front();
    }
  }
  return std::nullopt;
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

void ShapeOptions::add_to(CLI::App& app) {
  app.add_option("--ranks", ranks, "number of ranks (8)")->type_name("N");
  app.add_option("--root", root, "the root rank, for operations that have one (0)")->type_name("R");
  app.add_option("--radix", radix,
                 "for trees the children of a rank, for bcube the members of a group (2)")
      ->type_name("K");
  app.add_option("--groups", groups, "the ranks of each host, as 0,1/2,3")->type_name("HOSTS");
  app.add_option("--dimensions", dimensions, "the grid of ranks, as 4x2")->type_name("AxB");
}

Shape ShapeOptions::shape() const {
  Shape shape{.ranks = parse_count("--ranks", ranks, 1, kMostRanks)};
  shape.root = parse_count("--root", root, 0, shape.ranks - 1);
  shape.radix = parse_count("--radix", radix, 1, kMostRanks);
  if (!groups.empty()) shape.groups = parse_groups(groups, shape.ranks);
  if (!dimensions.empty()) shape.dimensions = parse_dimensions(dimensions, shape.ranks);
  return shape;
}

int ShapeOptions::ranks_of(const collective::MixingGraph& graph, const CLI::App& app) const {
  for (const char* option : {"--root", "--radix", "--groups", "--dimensions"})
    PACELINE_CHECK(app.count(option) == 0,
                   "{}: a mixing graph has ranks alone; leave the option away", option);
  int count = parse_count("--ranks", ranks, 1, kMostRanks);
  if (app.count("--ranks") == 0 && !graph.check(count))
    for (count = 1; count < kMostRanks && !graph.check(count);) ++count;
  graph.check(count).value();
  return count;
}

std::string shape_text(Operation operation, const Shape& shape) {
  std::string text = to_string(shape);
  const std::string root = fmt::format(", root {}", shape.root);
  if (!has_root(operation)) text.erase(text.find(root), root.size());
  return text;
}

std::string as_options(const Shape& shape) {
  const std::string told = to_string(shape);
  std::string options = fmt::format("--ranks {}", shape.ranks);
  for (std::size_t at = told.find(", "); at != std::string::npos; at = told.find(", ", at + 1))
    options += " --" + told.substr(at + 2, told.find(", ", at + 1) - at - 2);
  return options;
}

void check_fit(const Algorithm& algorithm, const Shape& shape) {
  Shape at = shape;
  bool fits = true;
  for (at.rank = 0; at.rank < at.ranks; ++at.rank) fits = fits && algorithm.fits(at);
  if (fits) return;
  const std::optional<Shape> other = nearest_fit(algorithm, shape.ranks);
  throw_misuse(fmt::format("{} {} has no programs for {}{}", name_of(algorithm.operation),
                           algorithm.name, shape_text(algorithm.operation, shape),
                           other ? fmt::format("; it has some for {}", as_options(*other)) : ""));
}

}  // namespace paceline::cli
