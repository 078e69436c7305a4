// Agrees on one plan for all ranks: rank 0's.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/schedule/order/gradient_plan.h"

namespace paceline::schedule {

// Convert a plan to JSON and back. plan_of_json THROWS Error (misuse) that names what is missing or
// wrong.
std::string json_of(const MessagePlan& plan);
MessagePlan plan_of_json(std::string_view text);

// Collective: every rank returns rank 0's plan; the arguments of the others are ignored.
MessagePlan agreed(Communicator& group, const MessagePlan& plan);

}  // namespace paceline::schedule
