// Little models made of seeded numbers, and all ways to group them, to compare the exact planners
// with.
#pragma once

#include <initializer_list>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/schedule/order/gradient_plan.h"

namespace paceline::schedule {

inline double one_of(SeededNumbers& numbers, std::initializer_list<double> choices) {
  return choices.begin()[numbers.below(choices.size())];
}

struct Instance {
  std::vector<double> ready, bytes;
};

inline Instance random_instance(SeededNumbers& numbers, int tensors) {
  Instance one;
  double now = 0;
  for (int i = 0; i < tensors; ++i) {
    now += numbers.below(2) == 0 ? 0 : numbers.unit();
    one.ready.push_back(now);
    one.bytes.push_back(one_of(numbers, {.01, .1, 1, 3}) * numbers.unit());
  }
  return one;
}

inline std::vector<Cuts> all_cuts(int tensors) {
  std::vector<Cuts> all;
  for (unsigned chosen = 0; chosen < 1u << (tensors - 1); ++chosen) {
    Cuts cuts = {0};
    for (int i = 0; i + 1 < tensors; ++i)
      if ((chosen >> i & 1u) != 0) cuts.push_back(i + 1);
    cuts.push_back(tensors);
    all.push_back(std::move(cuts));
  }
  return all;
}

}  // namespace paceline::schedule
