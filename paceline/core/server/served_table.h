// ServedTable: a table of numbers or a sparse one, as its server has it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/server/machine/table_machine.h"
#include "paceline/core/server/sparse/sparse_machine.h"

namespace paceline::server {

// `Machine` is what a member does for it (control/member_machine.h).
template <typename Machine>
class ServedTable {
 public:
  using Shape = typename Machine::Shape;

  // The chains are those of the moment: nothing where each part has one server.
  ServedTable(Job& job, int own, Shape of, std::uint32_t number,
              const std::optional<std::vector<Chain>>& chains)
      : shape_(std::move(of)),
        number_(number),
        machine_(shape_, own, {}, chains),
        run_(job, number, with(own, shape_.members.all()), machine_) {}

  std::uint32_t number() const { return number_; }
  void hear(const std::vector<std::byte>& chains) {
    run_.tell({.kind = Machine::kChains, .payload = chains});
  }
  std::vector<ChainReport> reports() const { return machine_.reports(); }
  std::uint64_t changes() const { return machine_.changes(); }

  // THREAD: the driver.
  void add_to(transport::RankStatus::Serves& all) const {
    for (const auto& [number, part] : machine_.parts()) {
      const auto& clocks = part.value().clocks();
      std::int64_t lowest = part.value().clock(), highest = lowest;
      for (const auto& [worker, clock] : clocks) highest = std::max(highest, clock);
      all.lowest_clock = all.ranges == 0 ? lowest : std::min(all.lowest_clock, lowest);
      all.highest_clock = std::max(all.highest_clock, highest);
      all.pushes += part.pushes();
      if constexpr (requires { part.value().rows(); })
        all.rows += static_cast<std::int64_t>(part.value().rows());
      ++all.ranges;
    }
  }

  bool is_over() const { return machine_.is_over(); }

 private:
  static std::set<int> with(int own, std::set<int> members) {
    members.insert(own);
    return members;
  }

  const Shape shape_;
  const std::uint32_t number_;
  Machine machine_;
  coordination::MachineRun run_;
};

using ServedNumbers = ServedTable<TableMachine>;
using ServedSparse = ServedTable<SparseMachine>;

}  // namespace paceline::server
