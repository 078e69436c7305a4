// The door of gradient: from autograd's events to mean gradients.
//
// GradientAveraging (gradient_averaging.h) is the Synchrony that averages gradients, one step after
// the other. Its parts share the facts of the running step (gradient_step.h): its backward passes
// and their misuse (passes.h), its weights and used parameters (step_agreement.h), its figures
// (step_figures.h), and the failure that ended the communication (gradient_step.h). Gradients lie
// in buckets (gradient_buckets.h) and leave in them (outgoing_buckets.h); what a rank gets of the
// means has three forms (means.h: none, whole ones, and the pieces of the room shard), and comes
// back at once or later (incoming_means.h). A schedule says which gradients travel together
// (gradient_schedule.h, schedule_options.h), and a path follows it from layout to layout and into
// checkpoints (scheduled_path.h). Rows of sparse gradients go apart (sparse_gradients.h). Start
// reading at gradient_averaging.h, then means.h.
#pragma once

#include "paceline/torch/gradient/gradient_averaging.h"
#include "paceline/torch/gradient/gradient_buckets.h"
#include "paceline/torch/gradient/means.h"
#include "paceline/torch/gradient/passes.h"
