#include "paceline/core/server/table/chain.h"

#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {
namespace {

constexpr std::int32_t kNobody = -1;

// While one of them is to leave, a chain has a server more.
constexpr std::size_t kLongestChain = kMostReplicas + 1;

}  // namespace

std::optional<int> Chain::before(int member) const {
  if (joiner == member && !servers.empty()) return servers.back();
  const auto found = std::ranges::find(servers, member);
  if (found == servers.end() || found == servers.begin()) return std::nullopt;
  return *std::prev(found);
}

std::optional<int> Chain::behind(int member) const {
  const auto found = std::ranges::find(servers, member);
  if (found == servers.end()) return std::nullopt;
  return std::next(found) == servers.end() ? joiner : std::optional(*std::next(found));
}

std::vector<Chain> first_chains(const std::vector<int>& servers, int replicas) {
  std::vector<Chain> chains(servers.size());
  for (std::size_t first = 0; first < servers.size(); ++first)
    for (std::size_t i = 0; i < static_cast<std::size_t>(replicas); ++i)
      chains[first].servers.push_back(servers[(first + i) % servers.size()]);
  return chains;
}

std::vector<std::byte> encode(const std::vector<Chain>& chains) {
  transport::WireWriter writer;
  for (const Chain& chain : chains) {
    writer.integer(chain.generation)
        .integer(static_cast<std::int32_t>(chain.joiner.value_or(kNobody)))
        .integer(static_cast<std::uint32_t>(chain.servers.size()));
    for (const int server : chain.servers) writer.integer(static_cast<std::int32_t>(server));
  }
  return std::move(writer).take();
}

Result<std::vector<Chain>> parse_chains(Bytes bytes) {
  transport::WireReader reader(bytes);
  std::vector<Chain> chains;
  bool is_right = true;
  while (is_right && !reader.rest().empty()) {
    Chain& chain = chains.emplace_back();
    chain.generation = reader.integer<std::uint64_t>();
    const auto joiner = reader.integer<std::int32_t>();
    if (joiner != kNobody) chain.joiner = joiner;
    const auto servers = reader.integer<std::uint32_t>();
    is_right = servers <= kLongestChain && joiner >= kNobody;
    for (std::uint32_t i = 0; is_right && i < servers; ++i)
      chain.servers.push_back(reader.integer<std::int32_t>());
    is_right = is_right && reader.ok() &&
               std::ranges::all_of(chain.servers, [](int server) { return server >= 0; });
  }
  if (is_right) return chains;
  return Failure{Fault::io,
                 "the chains of servers came in bytes that make no sense: a bug, please report it",
                 {}};
}

}  // namespace paceline::server
