#include "paceline/core/collective/building/host_groups.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::collective {
namespace {

int place_of(const std::vector<int>& ranks, int rank) {
  const auto found = std::ranges::find(ranks, rank);
  PACELINE_CHECK(found != ranks.end(), "rank {} is not among these {} ranks", rank, ranks.size());
  return static_cast<int>(found - ranks.begin());
}

// The sum of one host, then of several.
struct Sum {
  int first = 0, count = 0;  // ranks
  bool is_balanced = false;
};

Sum operator+(const Sum& left, const Sum& right) {
  // The balanced tree is split at the largest power of two below its count.
  const bool is_split_there = left.first + left.count == right.first &&
                              std::has_single_bit(static_cast<unsigned>(left.count)) &&
                              left.count >= right.count;
  return {left.first, left.count + right.count,
          left.is_balanced && right.is_balanced && is_split_there};
}

}  // namespace

Hosts hosts_of(const Shape& shape) {
  Hosts hosts = shape.groups;
  if (hosts.empty()) {
    hosts.emplace_back(static_cast<std::size_t>(shape.ranks));
    std::iota(hosts[0].begin(), hosts[0].end(), 0);
  }
  for (auto& host : hosts) std::ranges::sort(host);
  std::ranges::sort(hosts);
  return hosts;
}

bool are_of_one_size(const Hosts& hosts) {
  return std::ranges::all_of(hosts,
                             [&](const auto& host) { return host.size() == hosts[0].size(); });
}

bool hold_neighbours(const Hosts& hosts) {
  int next = 0;
  for (const auto& host : hosts) {
    for (const int rank : host) {
      if (rank != next++) return false;
    }
  }
  return true;
}

bool sum_by_balanced_tree(const Hosts& hosts) {
  std::vector<Sum> sums;
  for (const auto& host : hosts) {
    const int count = static_cast<int>(host.size());
    sums.push_back({host.front(), count, host.back() - host.front() == count - 1});
  }
  return balanced_sum(sums, std::plus<Sum>()).is_balanced;
}

const std::vector<int>& host_of(const Hosts& hosts, int rank) {
  const auto found = std::ranges::find_if(
      hosts, [&](const auto& host) { return std::ranges::find(host, rank) != host.end(); });
  PACELINE_CHECK(found != hosts.end(), "rank {} is on no host", rank);
  return *found;
}

int leader_of(const std::vector<int>& host, int root) {
  return std::ranges::find(host, root) == host.end() ? host.front() : root;
}

std::vector<int> leaders_of(const Hosts& hosts, int root) {
  std::vector<int> leaders;
  for (const auto& host : hosts) leaders.push_back(leader_of(host, root));
  return leaders;
}

std::vector<int> keepers_of(const Hosts& hosts, int chunk) {
  const auto place = static_cast<std::size_t>(place_of(host_of(hosts, chunk), chunk));
  std::vector<int> keepers;
  for (const auto& host : hosts) keepers.push_back(host[place % host.size()]);
  return keepers;
}

std::vector<std::vector<int>> kept_on(const Hosts& hosts, const std::vector<int>& host) {
  std::vector<std::vector<int>> kept(host.size());
  for (const auto& of : hosts) {
    for (std::size_t place = 0; place < of.size(); ++place)
      kept[place % host.size()].push_back(of[place]);
  }
  return kept;
}

Counters across_and_within(const Hosts& hosts) {
  const long others = static_cast<long>(hosts.size()) - 1;
  bool has_neighbours = false;
  Counters counters;
  for (const auto& host : hosts) {
    const long size = static_cast<long>(host.size());
    counters.messages += size * others + size * (size - 1);
    has_neighbours = has_neighbours || size > 1;
  }
  counters.depth = (others > 0 ? 1 : 0) + (has_neighbours ? 1 : 0);
  return counters;
}

Shape shape_among(const std::vector<int>& ranks, int rank, int root) {
  return {.ranks = static_cast<int>(ranks.size()),
          .rank = place_of(ranks, rank),
          .root = place_of(ranks, root)};
}

Shape shape_among(const std::vector<int>& ranks, int rank) {
  return shape_among(ranks, rank, ranks.front());
}

}  // namespace paceline::collective
