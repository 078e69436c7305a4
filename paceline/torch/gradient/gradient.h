// The door of gradient: from autograd's events to mean gradients.
//
// The Reducer (reducer.h) carries one step after the other. Gradients lie in buckets
// (gradient_buckets.h), a schedule says which travel together (gradient_schedule.h,
// schedule_options.h), a carrier sends them (gradient_carrier.h), notes travel beside them
// (step_note.h), and rows of sparse gradients go apart (sparse_gradients.h). parameter_watch.h sees
// misuse, own_updates.h runs the optimizers that DataParallel owns, training_state.h is what passes
// from step to step, recording.h writes down the model. Start reading at reducer.h.
#pragma once

#include "paceline/torch/gradient/reducer.h"
