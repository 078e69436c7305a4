// How many clocks a second the workers of a table go: measured, and as the same machines go in
// virtual time, where messages take none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "paceline/core/job/job.h"

namespace paceline::measure {

// Workers that take longer for a clock: always the same one, or in each clock another one that is
// drawn by the seed.
struct Slowness {
  int rank = -1;  // the slow one; -1: one is drawn for each clock
  double factor = 1;
  std::uint64_t seed = 1;

  // How many times as long as `pace` this rank's clock lasts. All ranks draw the same.
  double factor_of(int rank, std::int64_t clock, int ranks) const;
};

struct ClockOptions {
  std::string synchrony = "bsp";
  std::size_t elements = 1 << 16;  // of the table, f32
  double pace = 0.02;              // seconds that a clock takes at least, without its messages
  std::optional<Slowness> slow = {};
  std::int64_t clocks = 50;  // of each worker
};

// All workers together.
struct ClockFigures {
  double clocks_per_second = 0;  // the mean of the workers, each over the time that it took itself
  // The versions that a worker had not read when its update was used (TableFigures::staleness).
  double staleness_mean = 0, staleness_max = 0;
};

// The same on all workers. A worker computes (sleeps), pushes an update and pulls. Collective.
// THROWS Error: misuse (no such synchrony, or it does not fit the workers), and what Table throws.
ClockFigures clocks_of_workers(Job& job, const ClockOptions& options);

// Clocks a second, the mean of the workers. THROWS Error (misuse): no such synchrony, or it does
// not fit the workers.
double forecast_clocks_per_second(const ClockOptions& options, int workers, int servers);

}  // namespace paceline::measure
