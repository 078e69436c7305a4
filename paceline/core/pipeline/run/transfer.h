// Messages of a pipeline: what crosses a cut between two ranks.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "paceline/core/pipeline/order/order.h"

namespace paceline::pipeline {

// The input of an operation that another rank's operation computes: a forward's activation, or a
// backward's gradient. It consists of one tensor or several.
struct Transfer {
  Kind kind = Kind::forward;
  int stage = 0;  // the one that receives it
  int micro_batch = 0;
  int peer = 0;  // of the rank that sends or receives it: the other one
  auto operator<=>(const Transfer&) const = default;

  Operation operation() const { return {kind, stage, micro_batch}; }  // which needs it
};
// "the activation of micro-batch 3 for stage 1", "the gradient of micro-batch 3 for stage 0"
std::string text_of(const Transfer& transfer);

// The message that `operation` needs, and the one that carries its result; empty where none crosses
// between ranks.
std::optional<Transfer> transfer_before(const Placement& placement, const Operation& operation);
std::optional<Transfer> transfer_after(const Placement& placement, const Operation& operation);

// A message has at most so many tensors, and a rank so many chunks.
inline constexpr std::uint32_t kMostTensors = 128, kMostChunks = 128;
// The tag of a message's tensor. `turn` counts the micro-batches of all steps. Tags repeat after
// 131,072 turns, of which never so many are in flight. REQUIRES: tensor < kMostTensors.
std::uint32_t tag_of(const Placement& placement, const Transfer& transfer, std::uint32_t tensor,
                     std::uint64_t turn);

}  // namespace paceline::pipeline
