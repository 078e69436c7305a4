// Order: which rank of a pipeline computes what after what, as a value.
//
// A model is cut into stages 0 .. S - 1, and a batch into micro-batches 0 .. m - 1. A forward takes
// a micro-batch through a stage; a backward takes its gradient back. Where the backward is split,
// it returns the input's gradient alone, and the operation `weight` adds the gradient of the
// weights later. With P ranks and S = V P stages each rank has V of them, which are its chunks:
// stage c P + r is chunk c of rank r.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::pipeline {

enum class Kind : std::uint8_t { forward, backward, weight };
std::string_view name_of(Kind kind);

struct Operation {
  Kind kind = Kind::forward;
  int stage = 0;
  int micro_batch = 0;
  auto operator<=>(const Operation&) const = default;
};
std::string text_of(const Operation& operation);  // "the forward of micro-batch 3 on stage 1"

// The ranks on which the stages live.
struct Placement {
  int ranks = 1;
  int stages = 1;
  // Empty, or of each stage how many ranks compute it. Then each rank has one stage: the first
  // ranks have stage 0, the next ones stage 1; micro-batch j is replica j mod R's, both ways.
  std::vector<int> replicas = {};

  int replicas_of(int stage) const;
  int first_rank_of(int stage) const;
  int rank_of(int stage, int micro_batch) const;
  std::vector<int> stages_of(int rank) const;                           // in rising order
  int chunks() const { return replicas.empty() ? stages / ranks : 1; }  // of a rank
  bool operator==(const Placement&) const = default;
};

struct Order {
  std::vector<std::vector<Operation>> ranks;  // of each rank its operations, one after the other
  int stages = 1;
  int micro_batches = 1;
  bool split_backward = false;
  std::vector<int> replicas = {};  // as in Placement

  Placement placement() const { return {static_cast<int>(ranks.size()), stages, replicas}; }
  bool operator==(const Order&) const = default;
};

// The operations that must have ended before this one may begin.
std::vector<Operation> inputs_of(const Operation& operation, int stages);

// The operation of a neighbouring stage that needs what this one computes: the next stage's
// forward, or the stage's backward before it. Empty where there is none.
std::optional<Operation> successor_of(const Operation& operation, int stages);
// The operation of a neighbouring stage whose result this one needs.
std::optional<Operation> predecessor_of(const Operation& operation, int stages);

}  // namespace paceline::pipeline
