// The door of threads: the threads of one process that share the weights of a model.
//
// A team runs a function on all threads (team.h), whose steps on single samples (sample_steps.h,
// with the rates of step_settings.h) read and add to common weights (shared_weights.h). Hogwild!
// does so without locks, which pays where rows seldom meet (sparsity.h); Cyclades works at the same
// time on those samples alone that share no feature (conflicts.h). Start reading at sample_steps.h.
#pragma once

#include "paceline/linear/threads/conflicts.h"
#include "paceline/linear/threads/sample_steps.h"
#include "paceline/linear/threads/shared_weights.h"
#include "paceline/linear/threads/sparsity.h"
#include "paceline/linear/threads/step_settings.h"
#include "paceline/linear/threads/team.h"
