// The plans from which the general scheduler's search begins (docs/schedules/general.md).
#pragma once

#include <optional>
#include <vector>

#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

// They are the survey's seven, unchanged, so that the result is never slower than any of them;
// fused, bucketed and single tensors in parts of several sizes with each codec of `costs`, with a
// barrier and across it; and the best mixture of codecs.
std::vector<MessagePlan> starting_plans(const Model& model, const Costs& costs,
                                        std::optional<Path> only = {});

}  // namespace paceline::schedule
