// Units: how parameters and gradients lie in flat memory, and which rank owns what of it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::shard {

// A parameter begins at a multiple of 64 bytes: kernels round by alignment. A unit's memory is a
// multiple of 128 bytes for each rank, and rank r owns the r-th piece of every unit.
inline constexpr std::size_t kTensorAlignment = 64, kPieceAlignment = 128;

// Dense parameters of one type, one after the other. All sizes and offsets are in bytes.
struct Unit {
  std::string name;  // for texts
  schedule::Bucket parameters;
  std::vector<std::size_t> offsets;  // of each
  std::size_t bytes = 0;             // with what lies between them and the padding at the end
  bool is_root = false;              // holds all that belongs to no element of a list
};

// A part of a parameter that lies in a rank's piece of its unit.
struct Segment {
  std::size_t parameter = 0, unit = 0;
  std::size_t begin = 0;  // in the piece
  std::size_t bytes = 0;  // 0: the parameter has nothing there
  std::size_t place = 0;  // of the first one in the parameter
};

class Units {
 public:
  // Those of a DataParallel of these options: at zero_stage 1 and 2 the buckets of the order of
  // registration, at 3 the units of the model (ModelParts::units), in reverse order of
  // registration, the root last. At stage 3 no two have the same size, so that ranks that gather
  // different ones fail instead of mixing them up.
  static Units of(const replica::ModelParts& parts, int ranks, const DataParallelOptions& options);

  const std::vector<Unit>& all() const { return units_; }
  const Unit& operator[](std::size_t unit) const { return units_[unit]; }
  std::size_t size() const { return units_.size(); }
  std::size_t unit_of(std::size_t parameter) const { return unit_of_[parameter]; }
  std::size_t piece_bytes(std::size_t unit) const {
    return units_[unit].bytes / static_cast<std::size_t>(ranks_);
  }
  std::size_t bytes() const;  // of all
  Segment segment(std::size_t parameter, int rank) const;

 private:
  Units(std::vector<Unit> units, const replica::ModelParts& parts, int ranks, bool distinct);

  std::vector<Unit> units_;
  int ranks_;
  std::vector<std::size_t> unit_of_, offset_, bytes_;  // by parameter
};

}  // namespace paceline::shard
