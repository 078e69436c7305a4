// How good scores are that a model gives to lines which were clicked or not.
#pragma once

#include <span>
#include <vector>

namespace examples {

struct ScoredLine {
  double logit = 0;  // clicked with probability 1 / (1 + exp(-logit)), says the model
  bool clicked = false;
};

// The probability that a clicked line has a higher score than one that was not, where equal scores
// count half (the area under the curve of right against wrong alarms, AUC): 0.5 for guesses, 1 for
// the best. NaN if one of both kinds is missing.
double area_under_curve(std::vector<ScoredLine> lines);

// The mean of -log(the probability that the model gave to what happened). NaN without lines.
double log_loss(std::span<const ScoredLine> lines);

}  // namespace examples
