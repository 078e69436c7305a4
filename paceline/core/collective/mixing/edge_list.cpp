#include "paceline/core/collective/mixing/edge_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "paceline/core/base/number.h"

namespace paceline::collective {
namespace {

constexpr int kMostRanks = 4096;
constexpr std::size_t kLongestLine = 200;
constexpr std::size_t kMostBytes = 4 << 20;

Failure wrong(const std::string& path, std::size_t line, std::string_view what) {
  return {Fault::misuse,
          fmt::format("{}:{}: {}. A list of edges has two rank numbers a line, as in \"0 1\"", path,
                      line, what),
          {}};
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open())
    return Failure{
        Fault::misuse,
        fmt::format("cannot read the list of edges {}: name a file that can be read", path),
        {}};
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostBytes)
    return Failure{Fault::misuse,
                   fmt::format("the list of edges {} has more than {} MiB: leave edges away", path,
                               kMostBytes >> 20),
                   {}};
  return text;
}

std::optional<int> rank_in(const std::string& text) {
  const auto rank = number_in<int>(text);
  return rank && *rank >= 0 && *rank < kMostRanks ? rank : std::nullopt;
}

int ranks_of(const Edges& edges) {
  int most = 0;
  for (const auto& [a, b] : edges) most = std::max({most, a, b});
  return most + 1;
}

Result<> require_connected(const std::string& path, const Edges& edges) {
  const int ranks = ranks_of(edges);
  std::vector<bool> is_reached(static_cast<std::size_t>(ranks));
  is_reached[0] = true;
  for (bool grows = true; grows;) {
    grows = false;
    for (const auto& [a, b] : edges) {
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      if (is_reached[i] == is_reached[j]) continue;
      is_reached[i] = is_reached[j] = grows = true;
    }
  }
  const auto lone = std::ranges::find(is_reached, false);
  if (lone == is_reached.end()) return Done{};
  return Failure{Fault::misuse,
                 fmt::format("{}: no path leads from rank 0 to rank {}, so their replicas would "
                             "never meet: add an edge",
                             path, lone - is_reached.begin()),
                 {}};
}

}  // namespace

Result<MixingGraph> read_edge_list(const std::string& path) {
  auto text = read_text(path);
  if (!text) return text.error();
  std::istringstream lines(std::move(text).value());
  Edges edges;
  std::set<std::pair<int, int>> known;
  std::string text_of_line;
  for (std::size_t line = 1; std::getline(lines, text_of_line); ++line) {
    if (text_of_line.size() > kLongestLine) return wrong(path, line, "the line is too long");
    std::istringstream words(text_of_line.substr(0, text_of_line.find('#')));
    std::string first, second, rest;
    if (!(words >> first)) continue;
    words >> second >> rest;
    const auto a = rank_in(first), b = rank_in(second);
    if (!a || !b || !rest.empty())
      return wrong(path, line,
                   fmt::format("'{}' is no pair of ranks below {}", text_of_line, kMostRanks));
    if (*a == *b) return wrong(path, line, fmt::format("rank {} has an edge to itself", *a));
    const std::pair<int, int> edge = std::minmax(*a, *b);
    if (!known.insert(edge).second)
      return wrong(path, line, fmt::format("the edge {} {} is there twice", *a, *b));
    edges.push_back(edge);
  }
  if (edges.empty())
    return Failure{Fault::misuse, fmt::format("{}: there is no edge in it", path), {}};
  if (auto connected = require_connected(path, edges); !connected) return connected.error();
  return metropolis_graph("@" + path, edges);
}

MixingGraph metropolis_graph(std::string name, const Edges& edges) {
  const int ranks = ranks_of(edges);
  std::vector<std::vector<int>> peers(static_cast<std::size_t>(ranks));
  for (const auto& [a, b] : edges) {
    peers[static_cast<std::size_t>(a)].push_back(b);
    peers[static_cast<std::size_t>(b)].push_back(a);
  }
  MixingGraph graph{.name = std::move(name),
                    .summary = "the edges of a file, with Metropolis weights"};
  graph.check = [ranks, file = graph.name](int wanted) -> Result<> {
    if (wanted == ranks) return Done{};
    return Failure{Fault::misuse,
                   fmt::format("the mixing graph {} has {} ranks, and there are {}: start as many, "
                               "or give another file",
                               file, ranks, wanted),
                   {}};
  };
  graph.terms = [peers = std::move(peers)](int, int, int rank) {
    const auto& own = peers[static_cast<std::size_t>(rank)];
    std::vector<MixingTerm> terms;
    for (const int peer : own) {
      const std::size_t degree = std::max(own.size(), peers[static_cast<std::size_t>(peer)].size());
      terms.push_back({peer, 1.0 / (1.0 + static_cast<double>(degree))});
    }
    return terms;
  };
  return graph;
}

}  // namespace paceline::collective
