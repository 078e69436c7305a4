// ChainReport: what a server tells the controller of its place in a chain.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/base/bytes.h"
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

// All that a server has to say, as one word to the launcher.
std::vector<std::byte> encode(const std::vector<ChainReport>& reports);
std::optional<std::vector<ChainReport>> parse_chain_reports(Bytes bytes);

}  // namespace paceline::server
