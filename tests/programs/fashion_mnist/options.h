// The options of this program's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/torch/checkpointing/checkpointing.h"

struct Options {
  std::string model = "cnn";
  std::string optimizer = "sgd";
  std::string split = "shuffled";
  std::int64_t epochs = 4;
  std::int64_t steps = 0;                         // 0: all steps of the epochs
  std::int64_t batch_size = 128;                  // of all workers together
  std::int64_t test_images = 0;                   // used to measure accuracy; 0: all
  std::int64_t evaluate_every = 0;                // steps; 0: after each epoch alone
  std::optional<double> learning_rate, momentum;  // none: those of optimizer_settings_of()
  std::uint64_t seed = 1;
  std::string dtype = "float32", device = "cpu";
  std::string layout;             // empty: all workers are replicas
  std::string pipeline;           // the schedule of its stages; empty: not given
  int micro_batches = 0;          // 0: not given; paceline::automatic
  std::string partition;          // PipelineOptions::partition
  std::string recompute;          // PipelineOptions::recompute; empty: not given
  std::int64_t memory_limit = 0;  // bytes; 0: none
  std::string schedule = "buckets", compression = "none", aggregate = "collective",
              synchrony = "synchronous";
  std::string precision = "none";
  std::string non_finite;          // DataParallelOptions::non_finite
  int zero = 0;                    // what ranks divide among them: DataParallelOptions::zero_stage
  std::int64_t portion = 256;      // samples that a worker is given at a time, of sandblaster
  double pace = 0;                 // milliseconds that a step takes at least
  std::string slow, corrupt;       // empty: no rank is
  std::optional<double> forecast;  // seconds that a step computes
  int threads = 0;                 // 0: OMP_NUM_THREADS, which `paceline run` sets
  std::string metrics, tensorboard, prometheus, trace;
  std::string checkpoint_dir;  // empty: no checkpoints
  std::int64_t checkpoint_every = 200;
  paceline::Resume resume = paceline::Resume::no;
  std::string save;
  std::string data;
};

// Returns the exit code with which to end at once, or -1 to go on.
int read_options(int argc, char** argv, Options& options);

// Iterations of sandblaster, unless --steps says otherwise.
inline constexpr std::int64_t kFullBatchSteps = 30;

struct OptimizerSettings {
  double learning_rate = 0, momentum = 0;
  bool is_of_compression = false;  // chosen for a method whose result is a direction
};
// The learning rate and momentum of the optimizer: given ones, or those that suit it and the
// network. A compression whose result is a direction has a momentum of its own, and may need
// another rate.
OptimizerSettings optimizer_settings_of(const Options& options);
