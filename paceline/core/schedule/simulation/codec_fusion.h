// Decides which gradients to fuse and how to encode each group (docs/schedules/general.md), for an
// encoder, a link and a decoder in a row, each serial, with a barrier behind them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/core/schedule/simulation/fusion.h"

namespace paceline::schedule {

// One way to send a group: seconds as functions of its bytes. Without `encode` the group bypasses
// the encoder.
struct CodedTransfer {
  TransferTime encode, transfer, decode;
};

struct CodedGroup {
  int begin = 0, end = 0;  // places in the send order
  int way = 0;
  bool operator==(const CodedGroup&) const = default;
};

struct CodedFusion {
  double end = 0;  // of the last decoding
  std::vector<CodedGroup> groups;
};

struct CodedFusionOptions {
  bool encodes_on_compute = false;  // encoding delays the backward pass and all that follows it
  // The number of states kept for each prefix. 0: all, and the result is the optimum; their number
  // may then grow like that of subset sums.
  std::size_t states = 0;
};

// Finds the earliest end over all groupings into runs and all choices of a way for each. The state
// of a prefix is the times when encoder, link and decoder are free; all three are monotone in the
// earlier state, so dominated states are dropped.
CodedFusion coded_fusion(std::span<const double> ready, std::span<const double> bytes,
                         std::span<const CodedTransfer> ways,
                         const CodedFusionOptions& options = {});

}  // namespace paceline::schedule
