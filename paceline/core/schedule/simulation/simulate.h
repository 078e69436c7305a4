// Simulates an iteration in virtual time (docs/schedules/README.md): computation, codecs and links
// are serial resources, and a plan's messages pass between them. Equal values give equal seconds.
#pragma once

#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

struct Conditions {
  // While a link is busy, computation runs at 1 / (1 + interference).
  double interference = 0;
  // Codecs delay the computation; else they have a core of their own.
  bool encodes_on_compute = false;
};

// The seconds of an iteration: with a barrier, one lap until the last update; across the barrier,
// the period of the steady state. Messages are not pre-empted, a group is delivered as a whole, and
// ties go to the lower group. REQUIRES: a plan for this model (else misuse).
double iteration_seconds(const Model& model, const Costs& costs, const MessagePlan& plan,
                         const Conditions& conditions = {});

// Does the same, but with a barrier it may give up and return infinity once the iteration has taken
// longer than `limit`, for a search that has found a better plan.
double iteration_seconds_within(double limit, const Model& model, const Costs& costs,
                                const MessagePlan& plan, const Conditions& conditions = {});

// Sets the plan's order to that in which its messages are handed to the link in a simulated
// iteration. Every rank then sends in this order, whichever gradients become ready first: a late
// message delays the next, and no agreement at run time is needed.
MessagePlan ordered(MessagePlan plan, const Model& model, const Costs& costs,
                    const Conditions& conditions = {});

}  // namespace paceline::schedule
