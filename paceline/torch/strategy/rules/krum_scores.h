// The scores of Krum: how far each row is from those that are near it.
#pragma once

#include <vector>

#include "paceline/torch/strategy/rules/gradient_rows.h"

namespace paceline::strategy::rules {

// The neighbours that a score counts, which are as many as rows that Multi-Krum takes: all rows but
// the faulty ones and two more, at least one.
std::size_t krum_neighbours(const GradientRows& rows);

// For each row, the sum of the squared distances to so many nearest others.
std::vector<double> krum_scores(const GradientRows& rows);

}  // namespace paceline::strategy::rules
