// The options of `paceline bench server`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "paceline/app/cli/bench/bench_ranks.h"
#include "paceline/app/measure/measure.h"

namespace paceline::cli {

// The options as the user wrote them.
struct ServerBenchOptions {
  ServerBenchOptions();

  CLI::App app;
  RanksOptions ranks;
  std::string operations = "all_reduce,push_pull,push,pull", sizes = "4KiB,4MiB,64MiB",
              dtype = "f32", blocks = "9", pace = "20", slow, clocks = "50", json;
  std::vector<std::string> synchronies;
};

// The options after the checks that need no ranks.
struct ServerBenchRequest {
  std::vector<std::string> operations = {};  // "" is the workers' own all_reduce
  std::vector<std::size_t> sizes = {};
  Dtype dtype = Dtype::f32;
  int blocks = 9;
  std::vector<measure::ClockOptions> clocks = {};  // of each synchrony
};
// THROWS Error (misuse)
ServerBenchRequest checked(const ServerBenchOptions& given);

}  // namespace paceline::cli
