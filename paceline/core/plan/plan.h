// The door of plan: where the layers of a model stand on a machine, and what that costs, as values.
//
// Nothing here measures, sends or depends on torch. Start reading at layer_cost.h.
#pragma once

#include "paceline/core/plan/layer_cost.h"
#include "paceline/core/plan/partitioner.h"
#include "paceline/core/plan/stage_partition.h"
