// Strings and bytes whose lengths differ from rank to rank, or are known to one rank alone.
//
// For names, settings, file contents and whatever a program serialises; tensors and gradients go by
// the operations of Communicator. Each call tells the lengths in one operation and sends the bytes
// in a second one, which is left out when there are none. Blocks. Like every operation these must
// be called by all ranks of the group in the same order; a rank that calls something else is named
// on every rank. One number has Communicator::all_reduce(double).
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline {

struct BytesOptions {
  // Bytes of all ranks together, so that no rank can make another allocate more. The same on all
  // ranks, which are all told when a call brings more; the group goes on.
  std::size_t at_most = std::size_t{1} << 30;
  // Each of the two operations fails that long after it began; zero: the communicator's.
  std::chrono::milliseconds within = {};
};

// The bytes of each rank, in rank order. They may be any bytes, also zeros, also none. THROWS
// Error: misuse on all ranks for more than options.at_most; the failure that ended the
// communication.
std::vector<std::string> all_gather_bytes(Communicator& group, std::string_view own,
                                          const BytesOptions& options = {});

// The same on the root alone; the others get an empty list.
std::vector<std::string> gather_bytes(Communicator& group, std::string_view own, int root = 0,
                                      const BytesOptions& options = {});

// The root's bytes; those of others are not read. THROWS as all_gather_bytes.
std::string broadcast_bytes(Communicator& group, std::string_view own, int root = 0,
                            const BytesOptions& options = {});

}  // namespace paceline
