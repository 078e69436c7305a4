// The training of a network in stages: what --layout pp=N, --pipeline, --micro-batches and
// --partition ask for.
#pragma once

#include "options.h"
#include "paceline/core/job/job.h"

// Trains by class Pipeline, else as train() does. Returns the exit code. THROWS paceline::Error.
int train_in_stages(paceline::Job& job, const Options& options);
