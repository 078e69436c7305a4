// The options of this example's command line.
#pragma once

#include <cstdint>
#include <string>

struct Options {
  std::string data = "kjv";  // or a file in LIBSVM's format
  bool zero_based = false;   // that file's indices count from 0
  std::string label;         // of kjv; empty: its testament
  std::string loss = "smooth_hinge";
  double l2 = 1e-3, l1 = 0;
  std::string solver = "cocoa_plus";
  std::int64_t rounds = 20;
  double until_gap = 0;  // ends earlier; 0: never
  std::string split = "shuffled";
  std::uint64_t seed = 1;
  std::string metrics;
};

// Returns the exit code with which to end at once, or -1 to go on.
int read_options(int argc, char** argv, Options& options);
