// The options of this example's command line.
#pragma once

#include <cstdint>
#include <string>

#include "model.h"
#include "paceline/train.h"

namespace tiny_gpt {

struct RunOptions {
  Options model{.length = 64};
  std::string text;       // empty: the King James Bible
  std::string layout;     // empty: all workers are replicas
  std::string pipeline;   // the schedule of its stages; empty: not given
  int micro_batches = 0;  // 0: not given; paceline::automatic
  std::string partition;  // PipelineOptions::partition
  std::string recompute;  // PipelineOptions::recompute; empty: not given
  int zero_stage = 0;
  bool is_sequence_parallel = false;
  std::int64_t steps = 600;
  std::int64_t batch_size = 16;  // sequences, all ranks together
  double learning_rate = 3e-3;
  double max_grad_norm = 1;
  std::string non_finite;  // DataParallelOptions::non_finite
  std::int64_t evaluate_every = 100;
  std::string dtype = "float32", device = "cpu";
  std::int64_t sample = 0;  // characters
  std::uint64_t seed = 1;
  int threads = 0;  // 0: OMP_NUM_THREADS
  std::string metrics;
  std::string checkpoint_dir;  // empty: no checkpoints
  std::int64_t checkpoint_every = 200;
  paceline::Resume resume = paceline::Resume::no;
};

// Returns the exit code with which to end at once, or -1 to go on.
int read_options(int argc, char** argv, RunOptions& options);

}  // namespace tiny_gpt
