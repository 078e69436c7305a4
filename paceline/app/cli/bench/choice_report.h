// The result of `paceline bench choose`: for each length, a call without a named algorithm beside
// all algorithms that could have carried it.
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
    double ratio = 1;  // its time over the fastest one's: the median of the blocks' ratios
  };

  Operation operation = Operation::all_reduce;
  std::string transport;
  Dtype dtype = Dtype::f32;
  int ranks = 1;
  std::size_t bytes = 0;
  // The carrier of a call without a name: an algorithm, or what Communicator::carrier names.
  std::string chosen;
  double measured_us = 0;                  // the time of such a call
  std::vector<Candidate> candidates = {};  // the chosen one first, then the cheapest by the model
  // For each block, the time of such a call over that of the candidate that was the fastest in all
  // other blocks. So a candidate gains nothing by being the fastest in one block by chance.
  std::vector<double> ratios = {};

  const Candidate& fastest() const;
  double regret() const;         // the median of the ratios less one, or 0
  double surest_regret() const;  // nine of ten blocks exceed it, so it is not noise
};

// `comparison` holds a call without a name first, which `chosen` carries, then calls by the
// forecasts' names in their order. REQUIRES: at least one forecast.
ChoiceCell cell_of(std::string_view chosen, const std::vector<Forecast>& forecasts,
                   const measure::Comparison& comparison, int ranks, const std::string& transport);

// The share of cells whose regret is at most this much; 1 when there are no cells.
double share_within(const std::vector<ChoiceCell>& cells, double regret);

// "within 10 % of the fastest: 92 % of the sizes; 1 more may be, by the spread of their blocks"
std::string choice_verdict(const std::vector<ChoiceCell>& cells);

std::string choice_head();
std::string choice_lines(const ChoiceCell& cell);
std::string choice_json(const std::vector<ChoiceCell>& cells);

}  // namespace paceline::cli
