// The training itself, and its end.
#pragma once

#include "options.h"
#include "paceline/core/job/job.h"

// Trains as the options say; rank 0 prints the results. THROWS paceline::Error.
void train(paceline::Job& job, const Options& options);
