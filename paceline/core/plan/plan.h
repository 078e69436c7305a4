// The door of plan: where the layers of a model stand on a machine, how many micro-batches a step
// has, and what that costs, as values.
//
// Layers as a profile has recorded them have costs (layer_cost.h). They make a partition
// (stage_partition.h) by PipeDream's partitioner or as a balanced cut (partitioner.h). A schedule's
// closed forms (pipeline_form.h) give the time of a step and its live activations, and with them
// the best number of micro-batches (micro_batch_choice.h) and the memory of a rank (rank_memory.h,
// recompute_segments.h). pipeline_plan.h puts all of it together beside data parallelism;
// split_table.h compares the bytes of both. Nothing here measures, sends or depends on torch. Start
// reading at pipeline_plan.h.
#pragma once

#include "paceline/core/plan/layer_cost.h"
#include "paceline/core/plan/micro_batch_choice.h"
#include "paceline/core/plan/partitioner.h"
#include "paceline/core/plan/pipeline_form.h"
#include "paceline/core/plan/pipeline_plan.h"
#include "paceline/core/plan/rank_memory.h"
#include "paceline/core/plan/recompute_segments.h"
#include "paceline/core/plan/split_table.h"
#include "paceline/core/plan/stage_partition.h"
