// A member's machine of a table carries out here what the chains of its parts ask of it. Parts are
// ranges, or shares of a sparse table.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/control/chain_report.h"
#include "paceline/core/server/table/chain.h"

namespace paceline::server {

// Tells each part that the member keeps its chain, and makes those that are new here. `chain_of`
// gives the number of a part's chain, and make(part) puts one into `parts`, with a chain of
// generation 0: a server that is new in a chain has no state, not even the first one.
template <typename Part, typename ChainOf, typename Make>
machine::Actions configure_parts(std::map<std::uint32_t, Part>& parts, std::uint32_t count,
                                 int member, const std::vector<Chain>& chains,
                                 const ChainOf& chain_of, const Make& make, machine::Time now) {
  machine::Actions actions;
  for (std::uint32_t part = 0; part < count; ++part) {
    const Chain& chain = chains[chain_of(part)];
    if (!parts.contains(part)) {
      if (!chain.has(member) && chain.joiner != member) continue;
      make(part);
    }
    machine::Actions more = parts.at(part).configure(chain, now);
    actions.insert(actions.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  }
  return actions;
}

// The member's place in each chain that it is in. A chain that has no part of this table has nothing
// to wait for here.
template <typename Part, typename ChainOf>
std::vector<ChainReport> reports_of_parts(const std::map<std::uint32_t, Part>& parts, int member,
                                          const std::vector<Chain>& chains,
                                          const ChainOf& chain_of) {
  std::vector<ChainReport> reports;
  for (std::uint32_t i = 0; i < chains.size(); ++i) {
    if (!chains[i].has(member)) continue;
    ChainReport report{i, chains[i].generation, true, chains[i].joiner.has_value()};
    for (const auto& [number, part] : parts) {
      if (chain_of(number) != i) continue;
      report.is_ready &= part.chain().is_ready();
      report.has_caught_up &= part.chain().joiner_has_caught_up();
    }
    reports.push_back(report);
  }
  return reports;
}

}  // namespace paceline::server
