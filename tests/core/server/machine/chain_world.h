// Tables whose ranges are kept by chains of servers, with kills, false suspicions, moves, and
// workers that come and leave; and the laws that no such world may break.
#pragma once

#include <string>

#include "tests/core/server/machine/quadratic_world.h"
#include "tests/core/server/machine/ssp_world.h"

namespace paceline::test {

inline void plan_troubles(VirtualTable& table, SeededNumbers& numbers,
                          const ChainTroubles& troubles) {
  plan_troubles_of(*table.chains, numbers, troubles);
}

inline std::string complaint_of_chains(const VirtualTable& table) {
  return complaint_of(*table.chains);
}

// Marks that tell which pushes a table holds, under ssp or asp.
struct ChainSspWorld : SspWorld {
  ChainSspWorld(std::optional<std::int64_t> of, std::uint64_t of_seed, int servers, int replicas,
                const ChainTroubles& troubles, machine::NetworkFaults weather = kBadWeather,
                std::int64_t steps = 10)
      : SspWorld(
            of, of_seed, "", steps, weather,
            [](int, machine::Machine& own) -> machine::Machine& { return own; }, servers,
            replicas) {
    plan_troubles(table, numbers, troubles);
  }

  // Runs it and returns the first law that was broken.
  std::string run(int newcomers = 0) {
    if (newcomers > 0) churn(newcomers);
    if (!table.run(20s)) return "no progress";
    if (std::string why = complaint(); !why.empty()) return why;
    if (std::string why = complaint_of_chains(table); !why.empty()) return why;
    return complaint_of_answers();
  }

 private:
  // A push that was answered is there, and whatever a read has shown is there too.
  std::string complaint_of_answers() {
    const std::vector<double> held = table.held();
    for (const TableRead& read : training.reads)
      for (std::size_t i = 0; i < held.size(); ++i)
        if (read.values[i] > held[i] && !is_own(read, i))
          return fmt::format("worker {} at {} saw an update that vanished", read.worker,
                             read.clock);
    for (const auto& [worker, trainer] : table.workers) {
      const auto answered = trainer->table.look([](const auto& one) { return one.answered(); });
      for (std::size_t range = 0; range < marks.ranges; ++range) {
        double there = 0;
        for (std::int64_t t = 0; t < marks.clocks; ++t)
          there += held[marks.place(range, number_of(worker), t)];
        if (there < static_cast<double>(answered))
          return fmt::format("{} pushes of worker {} were answered, and {} are there", answered,
                             worker, there);
      }
    }
    return {};
  }
  // A worker that was lost may have read its own push that no server has taken.
  bool is_own(const TableRead& read, std::size_t place) const {
    const auto worker = place % marks.block() / static_cast<std::size_t>(marks.clocks);
    return worker == static_cast<std::size_t>(number_of(read.worker));
  }
};

}  // namespace paceline::test
