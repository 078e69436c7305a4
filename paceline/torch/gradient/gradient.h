// The door of gradient: from autograd's events to mean gradients.
//
// GradientAveraging (gradient_averaging.h) is the Synchrony that averages gradients, one step after
// the other. Its parts share the facts of the running step (gradient_step.h): its backward passes
// and their misuse (passes.h, parameter_watch.h), its weights and used parameters
// (step_agreement.h), its figures (step_figures.h, recording.h), and the failure that ended the
// communication (final_failure.h). Gradients lie in buckets (gradient_buckets.h,
// memory_pool.h) and leave in them (outgoing_buckets.h); what a rank gets of the means has three
// forms (means.h: own_means.cpp, whole_means.cpp, and the pieces of the room shard), and comes back
// at once or later (incoming_means.h). A schedule says which gradients travel together
// (gradient_schedule.h, schedule_options.h, aggregate.h), and a path follows it from layout to
// layout and into checkpoints (scheduled_path.h, training_state.h). Rows of sparse gradients go
// apart (sparse_gradients.h). Start reading at gradient_averaging.h, then means.h.
#pragma once

#include "paceline/torch/gradient/gradient_averaging.h"
#include "paceline/torch/gradient/means.h"
#include "paceline/torch/gradient/memory_pool.h"
#include "paceline/torch/gradient/parameter_watch.h"
