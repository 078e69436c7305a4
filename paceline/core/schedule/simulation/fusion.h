// Decides which gradients to fuse into one message, on one serial link with a barrier behind it
// (docs/schedules/merged.md). Times in seconds, sizes in bytes, both by places in the send order.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/topology/prices.h"

namespace paceline::schedule {

// Seconds that a message of `bytes` holds the link; the function must never decrease.
using TransferTime = std::function<double(double bytes)>;

struct Fusion {
  double end = 0;  // of the last transfer
  Cuts cuts = {};
};

// Finds the earliest end over all groupings into runs of the send order, by a dynamic program. The
// optimum is seldom unique; ties go to the longest last group. COST: O(tensors^2) calls of
// `transfer`.
Fusion exact_fusion(std::span<const double> ready, std::span<const double> bytes,
                    const TransferTime& transfer);

// The rule of MG-WFBP's released code: a group stays open if the next gradient comes before a
// message that started now would have paid its start-up, or while the group has less than `floor`
// bytes. The rule is greedy: usually optimal, at times far from it.
Fusion released_fusion(std::span<const double> ready, std::span<const double> bytes,
                       const topology::Line& transfer, double floor = 0);

// --- with an encoder, a link and a decoder in a row, each serial, and a barrier behind them ---

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
