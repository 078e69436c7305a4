// ChainReport: what a server tells the controller of its place in a chain.
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/core/machine/machine.h"

namespace paceline::server {

// It is of one generation of the chain: the controller leaves aside what it hears of older ones.
struct ChainReport {
  std::uint32_t chain = 0;
  std::uint64_t generation = 0;
  bool is_ready = false;       // this server is, for all ranges of the chain
  bool has_caught_up = false;  // the joiner behind this server has had all that this server has
  bool operator==(const ChainReport&) const = default;
};

machine::Message encode(const ChainReport& report);
std::optional<ChainReport> parse_chain_report(const machine::Message& message);

}  // namespace paceline::server
