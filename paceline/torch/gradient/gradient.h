// The door of gradient: from autograd's events to mean gradients.
//
// GradientAveraging (gradient_averaging.h) is the Synchrony that averages gradients, one step after
// the other. Gradients lie in buckets (gradient_buckets.h), a schedule says which travel together
// (gradient_schedule.h, schedule_options.h), weights and used parameters are told beside them
// (step_facts.h), and rows of sparse gradients go apart (sparse_gradients.h). A receiver
// (gradient_receiver.h) takes the means where each rank owns a piece; memory that comes and goes in
// a step is memory_pool.h's; aggregate.h tells who forms the means. passes.h knows the backward
// passes of a step and sees misuse (with parameter_watch.h), step_figures.h keeps the figures,
// training_state.h is what passes from step to step, recording.h writes down the model. Start
// reading at gradient_averaging.h.
#pragma once

#include "paceline/torch/gradient/gradient_averaging.h"
#include "paceline/torch/gradient/gradient_receiver.h"
#include "paceline/torch/gradient/memory_pool.h"
#include "paceline/torch/gradient/parameter_watch.h"
