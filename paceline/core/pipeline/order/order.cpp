#include "paceline/core/pipeline/order/order.h"

#include <fmt/format.h>

#include <numeric>

namespace paceline::pipeline {

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::forward: return "forward";
    case Kind::backward: return "backward";
    case Kind::weight: return "weight gradient";
  }
  return "operation";
}

std::string text_of(const Operation& operation) {
  return fmt::format("the {} of micro-batch {} on stage {}", name_of(operation.kind),
                     operation.micro_batch, operation.stage);
}

int Placement::replicas_of(int stage) const {
  return replicas.empty() ? 1 : replicas[static_cast<std::size_t>(stage)];
}

int Placement::first_rank_of(int stage) const {
  if (replicas.empty()) return stage % ranks;
  return std::accumulate(replicas.begin(), replicas.begin() + stage, 0);
}

int Placement::rank_of(int stage, int micro_batch) const {
  return first_rank_of(stage) + micro_batch % replicas_of(stage);
}

std::vector<int> Placement::stages_of(int rank) const {
  std::vector<int> own;
  for (int stage = 0; stage < stages; ++stage) {
    const int first = first_rank_of(stage);
    if (rank >= first && rank < first + replicas_of(stage)) own.push_back(stage);
  }
  return own;
}

std::vector<Operation> inputs_of(const Operation& operation, int stages) {
  const auto [kind, stage, micro_batch] = operation;
  if (kind == Kind::weight) return {{Kind::backward, stage, micro_batch}};
  std::vector<Operation> inputs;
  if (kind == Kind::backward) inputs.push_back({Kind::forward, stage, micro_batch});
  if (const auto before = predecessor_of(operation, stages)) inputs.push_back(*before);
  return inputs;
}

std::optional<Operation> successor_of(const Operation& operation, int stages) {
  const auto [kind, stage, micro_batch] = operation;
  if (kind == Kind::forward && stage + 1 < stages) return Operation{kind, stage + 1, micro_batch};
  if (kind == Kind::backward && stage > 0) return Operation{kind, stage - 1, micro_batch};
  return std::nullopt;
}

std::optional<Operation> predecessor_of(const Operation& operation, int stages) {
  const auto [kind, stage, micro_batch] = operation;
  if (kind == Kind::forward && stage > 0) return Operation{kind, stage - 1, micro_batch};
  if (kind == Kind::backward && stage + 1 < stages) return Operation{kind, stage + 1, micro_batch};
  return std::nullopt;
}

}  // namespace paceline::pipeline
