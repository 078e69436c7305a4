// The options of this example's command line.
#pragma once

#include <cstdint>
#include <string>

struct Options {
  std::string model = "cnn";
  std::int64_t epochs = 4;
  std::int64_t steps = 0;         // 0: all steps of the epochs
  std::int64_t batch_size = 128;  // of all workers together
  std::int64_t test_images = 0;   // used to measure accuracy; 0: all
  double learning_rate = 0;       // 0: the model's own
  double momentum = 0.9;
  std::uint64_t seed = 1;
  std::string dtype = "float32";
  std::string schedule = "buckets", compression = "none";
  int threads = 0;  // 0: OMP_NUM_THREADS, which `paceline run` sets
  std::string metrics, tensorboard, prometheus, trace;
  std::string save;
  std::string data;
};

// Returns the exit code with which to end at once, or -1 to go on.
int read_options(int argc, char** argv, Options& options);
