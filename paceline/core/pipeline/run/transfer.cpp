#include "paceline/core/pipeline/run/transfer.h"

#include <fmt/format.h>

namespace paceline::pipeline {

std::string text_of(const Transfer& transfer) {
  return fmt::format("the {} of micro-batch {} for stage {}",
                     transfer.kind == Kind::forward ? "activation" : "gradient",
                     transfer.micro_batch, transfer.stage);
}

std::optional<Transfer> transfer_before(const Placement& placement, const Operation& operation) {
  const auto from = predecessor_of(operation, placement.stages);
  if (!from) return std::nullopt;
  const int peer = placement.rank_of(from->stage, from->micro_batch);
  if (peer == placement.rank_of(operation.stage, operation.micro_batch)) return std::nullopt;
  return Transfer{operation.kind, operation.stage, operation.micro_batch, peer};
}

std::optional<Transfer> transfer_after(const Placement& placement, const Operation& operation) {
  const auto to = successor_of(operation, placement.stages);
  if (!to) return std::nullopt;
  const int peer = placement.rank_of(to->stage, to->micro_batch);
  if (peer == placement.rank_of(operation.stage, operation.micro_batch)) return std::nullopt;
  return Transfer{to->kind, to->stage, to->micro_batch, peer};
}

// Bits, from the highest: 17 of the turn, 7 of the chunk, 7 of the tensor, 1 of the direction.
std::uint32_t tag_of(const Placement& placement, const Transfer& transfer, std::uint32_t tensor,
                     std::uint64_t turn) {
  const int chunk = placement.replicas.empty() ? transfer.stage / placement.ranks : 0;
  const auto direction = transfer.kind == Kind::forward ? 0U : 1U;
  return static_cast<std::uint32_t>(turn & 0x1ffff) << 15 |
         (static_cast<std::uint32_t>(chunk) % kMostChunks) << 8 | (tensor % kMostTensors) << 1 |
         direction;
}

}  // namespace paceline::pipeline
