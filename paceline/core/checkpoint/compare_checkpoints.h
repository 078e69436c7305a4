// Compares two committed checkpoints by what they hold, however it is cut into files.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/manifest.h"

namespace paceline::checkpoint {

struct Difference {
  std::string item;
  std::string tensor;  // "fc.weight", "cpu of rank 1"; empty: the item itself, or its values
  std::string what;    // "is in the first alone", "differs by at most 0.25 in 3 of 48 elements"
  bool operator==(const Difference&) const = default;
};

// `first` and `second` are directories of steps with their manifests. Empty: items, values and
// tensors are equal bit for bit. Steps, jobs and numbers of ranks may differ. A failure (io) names
// the file that cannot be read. COST: reads both; memory for one tensor of each.
Result<std::vector<Difference>> differences(Disk& disk, const std::string& first,
                                            const Manifest& of_first, const std::string& second,
                                            const Manifest& of_second);

}  // namespace paceline::checkpoint
