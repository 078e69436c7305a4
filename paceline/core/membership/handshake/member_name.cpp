#include "paceline/core/membership/handshake/member_name.h"

#include <fmt/format.h>

#include <span>
#include <string_view>

namespace paceline::membership {
namespace {

std::string names_of_role(std::string_view role, std::span<const int> numbers) {
  return fmt::format("{}{} {}", role, numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "));
}

}  // namespace

std::string member_name(int member, int ranks) {
  return member < ranks ? fmt::format("rank {}", member) : fmt::format("server {}", member - ranks);
}

std::string member_names(const std::vector<int>& members, int ranks) {
  std::vector<int> of_ranks, of_servers;
  for (const int member : members)
    if (member < ranks) of_ranks.push_back(member);
    else of_servers.push_back(member - ranks);
  if (of_servers.empty()) return names_of_role("rank", of_ranks);
  if (of_ranks.empty()) return names_of_role("server", of_servers);
  return names_of_role("rank", of_ranks) + " and " + names_of_role("server", of_servers);
}

}  // namespace paceline::membership
