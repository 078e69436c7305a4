// Which gradients to fuse, and how to encode each group (docs/schedules/general.md): an encoder, a
// link and a decoder in a row, each serial, with a barrier behind them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/core/schedule/fusion.h"

namespace paceline::schedule {

// One way to send a group: seconds of its bytes. Without `encode` it does not pass the encoder.
struct CodedTransfer {
  TransferTime encode, transfer, decode;
};

struct CodedGroup {
  int begin = 0, end = 0;  // places of the send order
  int way = 0;
  bool operator==(const CodedGroup&) const = default;
};

struct CodedFusion {
  double end = 0;  // of the last decoding
  std::vector<CodedGroup> groups;
};

struct CodedFusionOptions {
  bool encodes_on_compute = false;  // encoding delays the backward pass, all that follows with it
  // So many states are kept for each prefix. 0: all, and the result is the optimum; their number
  // may then grow like that of subset sums.
  std::size_t states = 0;
};

// The earliest end over all groupings into runs and all choices of a way for each. A state of a
// prefix is when encoder, link and decoder are free; all three are monotone in the earlier state,
// so what is dominated can go.
CodedFusion coded_fusion(std::span<const double> ready, std::span<const double> bytes,
                         std::span<const CodedTransfer> ways,
                         const CodedFusionOptions& options = {});

}  // namespace paceline::schedule
