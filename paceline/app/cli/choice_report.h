// What `paceline bench choose` found: for each length the chosen algorithm beside all that could
// have been.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/app/measure/comparison.h"

namespace paceline::cli {

struct ChoiceCell {
  struct Candidate {
    std::string algorithm;
    double model_us = 0, measured_us = 0;
    double ratio = 1;  // of its time to that of the fastest: the median of the blocks' ratios
  };

  Operation operation = Operation::all_reduce;
  std::string transport;
  Dtype dtype = Dtype::f32;
  int ranks = 1;
  std::size_t bytes = 0;
  std::vector<Candidate> candidates = {};  // the cheapest by the model first: it is the chosen one

  const Candidate& chosen() const { return candidates.front(); }
  const Candidate& fastest() const;
  double regret() const { return chosen().ratio - 1; }
};

// `forecasts`, and their measurements in the same order. REQUIRES: at least one.
ChoiceCell cell_of(const std::vector<Forecast>& forecasts, const measure::Comparison& comparison,
                   int ranks, const std::string& transport);

// Of cells whose regret is at most this much; 1 of none.
double share_within(const std::vector<ChoiceCell>& cells, double regret);

std::string choice_head();
std::string choice_lines(const ChoiceCell& cell);
std::string choice_json(const std::vector<ChoiceCell>& cells);

}  // namespace paceline::cli
