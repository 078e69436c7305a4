// The time of a step under a strategy, from its traffic as a value (docs/strategies/).
#pragma once

#include <functional>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {

// The part of a step's computation that backward passes take: a matrix is multiplied once forward,
// and twice backward.
inline constexpr double kBackwardShare = 2.0 / 3;

// Seconds of one exchange, from which nothing is hidden.
using ExchangePrice = std::function<double(const Traffic&)>;

// Seconds of a step of `compute` seconds (a step of the strategy `none`), in the mean over a
// period: what an exchange takes longer than the computation behind which it hides is added to it.
// Messages that hide behind the same computation share it, in their order.
double seconds_per_step(const std::vector<Traffic>& traffic, double compute,
                        const ExchangePrice& seconds_of);

// The price that the model of `group` gives for elements of this type (Communicator::forecasts):
// of an operation the cheapest algorithm's; of messages to neighbours, which leave one after the
// other, so many of the messages of a direct all_gather, in which each rank sends all others its
// own. `group` outlives it.
ExchangePrice price_on(const Communicator& group, Dtype dtype);

}  // namespace paceline::strategy
