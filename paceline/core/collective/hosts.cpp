#include "paceline/core/collective/hosts.h"

#include <algorithm>
#include <numeric>

#include "paceline/core/base/check.h"

namespace paceline::collective {
namespace {

int place_of(const std::vector<int>& ranks, int rank) {
  const auto found = std::ranges::find(ranks, rank);
  PACELINE_CHECK(found != ranks.end(), "rank {} is not among these {} ranks", rank, ranks.size());
  return static_cast<int>(found - ranks.begin());
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

const std::vector<int>& host_of(const Hosts& hosts, int rank) {
  const auto found = std::ranges::find_if(
      hosts, [&](const auto& host) { return std::ranges::find(host, rank) != host.end(); });
  PACELINE_CHECK(found != hosts.end(), "rank {} is on no host", rank);
  return *found;
}

std::vector<int> leaders_of(const Hosts& hosts, int root) {
  std::vector<int> leaders;
  for (const auto& host : hosts) {
    const bool has_root = std::ranges::find(host, root) != host.end();
    leaders.push_back(has_root ? root : host.front());
  }
  return leaders;
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
