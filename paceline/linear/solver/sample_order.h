// The order in which a rank's samples are taken in a pass: a permutation, or independent draws.
#pragma once

#include "paceline/core/settings/settings.h"
#include "paceline/linear/data/split.h"

namespace paceline::linear {

struct SampleOrder {
  bool is_drawn = false;  // independent draws, as many as there are samples
  std::uint64_t seed = 1;
  int rank = 0;

  std::vector<std::size_t> of_pass(std::size_t samples, std::int64_t pass) const;
};

// The setting "order" of the methods that have one, and its value.
Setting order_setting();
SampleOrder order_in(const Settings& settings, std::uint64_t seed, int rank);

}  // namespace paceline::linear
