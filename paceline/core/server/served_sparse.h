// ServedSparse: a sparse table as its server has it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/server/sparse/sparse_machine.h"

namespace paceline::server {

class ServedSparse {
 public:
  ServedSparse(Job& job, int own, SparseShape of, std::uint32_t number)
      : shape_(std::move(of)),
        machine_(shape_, own),
        run_(job, number, shape_.members.all(), machine_) {}

  // THREAD: the driver.
  void add_to(transport::RankStatus::Serves& all) const {
    const ShareMachine& share = *machine_.share();
    std::int64_t lowest = share.value().clock(), highest = lowest;
    for (const auto& [worker, clock] : share.value().clocks()) highest = std::max(highest, clock);
    all.lowest_clock = all.ranges == 0 ? lowest : std::min(all.lowest_clock, lowest);
    all.highest_clock = std::max(all.highest_clock, highest);
    all.pushes += share.pushes();
    ++all.ranges;
  }

  bool is_over() const { return !machine_.serves_members(); }  // all workers have left it

 private:
  const SparseShape shape_;
  SparseMachine machine_;
  coordination::MachineRun run_;
};

}  // namespace paceline::server
