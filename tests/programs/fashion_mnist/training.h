// The training itself, and its end.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/checkpointing/checkpointing.h"
#include "paceline/torch/data/data.h"
#include "replica.h"

// Trains as the options say; rank 0 prints the results. Returns the exit code: 0, or 143 when the
// run was stopped by SIGTERM after a checkpoint. THROWS paceline::Error.
int train(paceline::Job& job, const Options& options);

// Share of the first `images` test images that the model gets right; each replica looks at its part
// of them, and all of them call it.
double accuracy(paceline::Job& job, const Replica& replica, torch::nn::Sequential& model,
                const paceline::data::LabelledImages& test, std::int64_t images,
                at::ScalarType type);

// Makes what --checkpoint-dir asks for, and adds nothing to it. Null: nobody asked for it.
std::unique_ptr<paceline::Checkpoints> make_checkpoints(paceline::Job& job, const Options& options);

// Prints that the run had been over after step `first`, from which it went on.
void tell_nothing_left(std::int64_t first, double test_accuracy);

// Writes what --save asks for. THROWS paceline::Error (io).
void save_parameters(const std::string& file, const std::vector<at::Tensor>& parameters);
