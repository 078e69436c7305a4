// Training by whole data sets: --optimizer sandblaster.
#pragma once

#include "options.h"
#include "paceline/core/job/job.h"

// Trains by iterations of L-BFGS on all training images, whose vectors lie on the job's servers,
// and tells what train() tells.
int train_full_batch(paceline::Job& job, const Options& options);
