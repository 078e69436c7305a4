// Updates that leave marks: each worker's update at each clock adds 1 to an element of its own in
// each range, so that values tell exactly which updates they contain, and how often.
#pragma once

#include <string>

#include "tests/core/server/machine/virtual_table.h"

namespace paceline::test {

struct MarkedUpdates {
  std::size_t ranges = 2, workers = 5;  // newcomers included
  std::int64_t clocks = 24;

  std::size_t block() const { return workers * static_cast<std::size_t>(clocks); }
  std::size_t place(std::size_t range, int worker, std::int64_t clock) const {
    return range * block() + static_cast<std::size_t>(worker) * static_cast<std::size_t>(clocks) +
           static_cast<std::size_t>(clock);
  }
  // Each block is a part, and each part a range; range i is block i.
  server::TableSpec spec(std::string synchrony, std::string rule) const {
    return {.name = "marks",
            .elements = ranges * block(),
            .dtype = Dtype::f64,
            .synchrony = std::move(synchrony),
            .rule = std::move(rule),
            .part_bytes = block() * sizeof(double)};
  }
  std::vector<double> update(int number_of_worker, std::int64_t clock, double mark) const {
    std::vector<double> values(ranges * block());
    for (std::size_t range = 0; range < ranges; ++range)
      values[place(range, number_of_worker, clock)] = mark;
    return values;
  }
};

}  // namespace paceline::test
