// What a rank says beside the gradients of a bucket: it travels as the all_reduce's note.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/core/base/bytes.h"

namespace paceline::parallel {

struct RankWeight {
  double weight = 1;
  bool told = false;  // whether weight() was called
  bool operator==(const RankWeight&) const = default;
};

struct StepNote {
  RankWeight weight;
  std::vector<bool> used;  // by place in the bucket: whether this rank's batch used the parameter
};

// weight (f64), told (u8), then one bit for each gradient.
std::vector<std::byte> encode(const StepNote& note);
// REQUIRES: `bytes` is the encoding of a note of `gradients` gradients (all ranks have the same
// plan).
StepNote decode_step_note(Bytes bytes, std::size_t gradients);

}  // namespace paceline::parallel
