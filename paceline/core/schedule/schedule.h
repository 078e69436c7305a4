// The door of schedule: order as a value. Which gradient travels when, and together with which
// others.
//
// A model (model.h: tensors and the computation around them) and what transfers cost (costs.h) make
// a plan (plan.h), by one of five policies (policies.h, general.h). The same plan is carried out by
// who stands above (paceline/torch/parallel), replayed by `paceline bench schedule`, and priced by
// the simulator of an iteration (simulate.h) without a network. Nothing here moves a byte or knows
// of torch. Start reading at plan.h. buckets.h is the grouping that data parallel training uses
// before anything is measured.
#pragma once

#include "paceline/core/schedule/bounds.h"
#include "paceline/core/schedule/buckets.h"
#include "paceline/core/schedule/costs.h"
#include "paceline/core/schedule/general.h"
#include "paceline/core/schedule/model.h"
#include "paceline/core/schedule/plan.h"
#include "paceline/core/schedule/policies.h"
#include "paceline/core/schedule/replay_models.h"
#include "paceline/core/schedule/simulate.h"
