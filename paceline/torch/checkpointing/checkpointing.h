// The door of checkpointing: saves a training, and goes on with it.
//
// Checkpoints (checkpoints.h) is what a program holds. What it adds are parts (checkpoint_part.h):
// a model, optimizers (of optimizers/known_optimizers.h, by the names of checkpoint_part.h), a
// DataParallel, the place of a sampler, a schedule of learning rates, torch's random numbers,
// fields of its own (checkpoint_fields.h). load_weights.h takes the model alone out of a
// checkpoint. A part gives its state and is made again from one (saved_item.h). own_share.h says
// which rank writes what, and writes it, saving.h has the ranks agree; resuming.h begins a run,
// from the newest checkpoint that is whole, with all of it or some; stop_signals.h hears the
// signals to save and to end; common_failure.h makes what fails on one rank fail on all. The files
// themselves are core/checkpoint's. Start reading at checkpoints.h, then saving.h.
#pragma once

#include "paceline/torch/checkpointing/checkpoint_fields.h"
#include "paceline/torch/checkpointing/checkpoints.h"
#include "paceline/torch/checkpointing/load_weights.h"
