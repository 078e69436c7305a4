// The training itself, and its end.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "options.h"
#include "paceline/core/job/job.h"

// Trains as the options say; rank 0 prints the results. Returns the exit code: 0, or 143 when the
// run was stopped by SIGTERM after a checkpoint. THROWS paceline::Error.
int train(paceline::Job& job, const Options& options);

// Writes what --save asks for. THROWS paceline::Error (io).
void save_parameters(const std::string& file, const std::vector<at::Tensor>& parameters);
