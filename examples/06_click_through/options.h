// The options of this example's command line.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/train.h"

namespace click_through {

struct RunOptions {
  std::string train, test;  // files in Criteo's format; empty: lines are drawn, or held out
  std::int64_t lines = 50'000;
  std::string generate;  // the file to write in place of training; empty: none
  std::int64_t epochs = 1;
  std::int64_t batch = 200;       // lines, all ranks together
  std::string synchrony = "asp";  // of the tables
  bool is_wide_only = false;
  std::int64_t width = 16;  // of a row of the deep table
  double table_rate = 0.1, learning_rate = 2e-3;
  std::uint64_t seed = 1;
  int threads = 0;  // 0: OMP_NUM_THREADS
  std::string metrics;
  std::string checkpoint_dir;  // empty: no checkpoints
  std::int64_t checkpoint_every = 200;
  paceline::Resume resume = paceline::Resume::no;
};

// Returns the exit code with which to end at once, or -1 to go on.
int read_options(int argc, char** argv, RunOptions& options);

}  // namespace click_through
