#pragma once

namespace paceline::replica {

// The weight of a rank's batch in the mean over all ranks.
struct RankWeight {
  double weight = 1;
  bool said = false;  // whether the user called weight()
  bool operator==(const RankWeight&) const = default;
};

}  // namespace paceline::replica
