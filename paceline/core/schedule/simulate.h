// The iteration in virtual time (docs/schedules/README.md): computation, codecs and links as serial
// resources, a plan's messages between them. Pure: the same values, the same seconds.
#pragma once

#include <vector>

#include "paceline/core/schedule/costs.h"
#include "paceline/core/schedule/model.h"
#include "paceline/core/schedule/plan.h"

namespace paceline::schedule {

struct Conditions {
  // While a link is busy, computation runs at 1 / (1 + interference).
  double interference = 0;
  bool encodes_on_compute = false;  // codecs hold up the computation; else they have a core aside
};

// Seconds of an iteration. With a barrier: one lap, until the last update. Across the barrier: the
// period of the steady state. Messages are not pre-empted, a group is delivered as a whole, ties go
// to the lower group. REQUIRES: a plan for this model (else misuse).
double iteration_seconds(const Model& model, const Costs& costs, const Plan& plan,
                         const Conditions& conditions = {});

// As iteration_seconds, but with a barrier it may give up, with infinity, once the iteration has
// taken longer than `limit`: for a search that has seen better.
double iteration_seconds_within(double limit, const Model& model, const Costs& costs,
                                const Plan& plan, const Conditions& conditions = {});

// The plan with the order in which its messages are handed to the link in such an iteration. Every
// rank then sends in it, whatever becomes ready when: a message that is late holds up the next, and
// nobody has to ask.
Plan ordered(Plan plan, const Model& model, const Costs& costs, const Conditions& conditions = {});

}  // namespace paceline::schedule
