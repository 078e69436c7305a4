// Workers that push marks where steps may close without some of them. A step is a mean of ones, so
// the value at a mark is its update's share.
#pragma once

#include <string>

#include "tests/core/server/machine/marked_updates.h"

namespace paceline::test {

struct PartialWorld {
  MarkedUpdates marks;
  TableTraining training;
  VirtualTable table;

  PartialWorld(const std::string& synchrony, int workers, std::uint64_t of_seed,
               std::function<machine::Time(int, std::int64_t)> computes, int replicas = 1)
      : marks{.workers = static_cast<std::size_t>(workers), .clocks = 24},
        training{
            .steps = 8,
            .first = std::vector<double>(marks.ranges * marks.block()),
            .update = [this](int worker, std::int64_t clock,
                             std::span<const double>) { return marks.update(worker, clock, -1); },
            .computes = std::move(computes)},
        table(spec_of(synchrony, replicas), workers, replicas == 1 ? 2 : 3, training, kBadWeather,
              of_seed) {}

  server::TableSpec spec_of(const std::string& synchrony, int replicas) const {
    auto spec = marks.spec(synchrony, "sgd:rate=1");
    spec.replicas = replicas;
    return spec;
  }

  // Returns whether all workers have come to their ends.
  bool run() {
    const bool is_done = table.run();
    held = table.held();
    return is_done;
  }
  std::vector<double> held;  // what the servers hold at the end

  // The shares of the updates with this stamp, by worker.
  std::vector<double> shares(std::size_t range, std::int64_t stamp) const {
    std::vector<double> all;
    for (std::size_t worker = 0; worker < marks.workers; ++worker)
      all.push_back(held[marks.place(range, static_cast<int>(worker), stamp)]);
    return all;
  }
  bool reads_have_one_version() const {
    return std::ranges::all_of(training.reads, [](const TableRead& read) {
      return std::ranges::all_of(read.row_clocks,
                                 [&](std::int64_t clock) { return clock == read.clock; });
    });
  }
};

}  // namespace paceline::test
