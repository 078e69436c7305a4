// The options of `paceline bench collective`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "paceline/app/cli/bench/bench_ranks.h"
#include "paceline/app/measure/measure.h"

namespace paceline::cli {

// The options as the user wrote them.
struct CollectiveOptions {
  CollectiveOptions();

  CLI::App app;
  RanksOptions ranks;
  std::string operation = "all_reduce", sizes = "4..64MiB", algorithms = "automatic", dtype = "f32",
              buffers = "allocate", bind = "cores", blocks = "9", operations, json, html, csv,
              device;
  bool yardstick = false, back_to_back = false;
};

// The options after the checks that need no ranks.
struct CollectiveRequest {
  Operation operation = Operation::all_reduce;
  Dtype dtype = Dtype::f32;
  std::vector<std::size_t> sizes = {};
  std::vector<std::string> algorithms = {};  // "all", "automatic" and names
  measure::CompareOptions compare = {};
  bool bind = true;  // each rank to a processor of its own
  bool progress = false;
  int device = -1;  // in whose memory buffers lie; -1: on the host; kOfEachRank
  static constexpr int kOfEachRank = -2;
};
// THROWS Error (misuse)
CollectiveRequest checked(const CollectiveOptions& given);

}  // namespace paceline::cli
