// Trains the model on the ranks of the job, and tells how it goes.
#pragma once

#include "options.h"
#include "paceline/core/job/job.h"

namespace tiny_gpt {

// THROWS paceline::Error.
void train(paceline::Job& job, const RunOptions& options);

}  // namespace tiny_gpt
