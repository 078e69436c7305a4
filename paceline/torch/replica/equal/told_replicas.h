// ToldReplicas: compares replicas where ranks need not come together, as at the end of a training.
//
// Each rank tells the others the fingerprints of its parameters after a step, and looks at what
// they have told of the same step. A rank that comes alone, or last, waits for nobody for long.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/machine/machine.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::replica {

// THREAD: one that trains, beside the driver.
class ToldReplicas final : public machine::Machine {
 public:
  // Collective.
  explicit ToldReplicas(Communicator& group);

  // Tells this rank's parameters as they are after `step`, and waits for those of the others for at
  // most `within`. Returns the difference (mismatch), if one is known. COST: reads the parameters
  // once. THROWS Error: what has ended the generation.
  std::optional<Failure> compare(const std::vector<Parameter>& parameters, std::int64_t step,
                                 std::chrono::milliseconds within);
  std::int64_t last_step() const { return last_step_; }  // that was told; 0: none

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  struct Told {
    std::int64_t step = 0;
    std::vector<std::int64_t> fingerprints = {};
  };
  bool have_all_told(std::int64_t step) const;

  const int rank_, ranks_;
  std::int64_t last_step_ = 0;
  mutable std::mutex mutex_;
  std::map<int, Told> told_;      // by rank: the last that it told
  std::vector<bool> lost_;        // by rank
  coordination::MachineRun run_;  // ends before what the machine looks at
};

}  // namespace paceline::replica
