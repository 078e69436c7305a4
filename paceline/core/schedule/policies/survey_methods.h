// The methods that a survey of gradient schedules compared, as plans (docs/schedules/README.md).
#pragma once

#include <vector>

#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

// The survey's seven methods, with its names and settings: BSP-PS, BSP-A2A, WFBP-PS, WFBP-A2A,
// MG-WFBP, ByteScheduler-PS, ByteScheduler-A2A. Without servers, only the four that need none.
// `crosses_barrier` applies to ByteScheduler, as its paper describes it; the survey's scripts ran
// it with a barrier.
std::vector<MessagePlan> survey_methods(const Model& model, const LinkCosts& links,
                                        bool crosses_barrier = true);

}  // namespace paceline::schedule
