// StandstillMachine: finds out that ranks wait for each other in different calls, so that none of
// them can go on.
//
// Calls belong to lanes: all ranks make the calls of a lane in the same order, and each is over
// when all ranks have made it. A rank that has waited for long tells all others for which call it
// waits, and how many calls it has made on each lane. Ranks stand still if each of them waits for a
// call that another one of them has not made. What is told stays true for as long as its rank
// waits, so the verdict is never wrong, however late the messages come.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/machine/machine.h"

namespace paceline::replica {

struct WaitingPlace {
  std::uint32_t lane = 0;
  std::int64_t call = 0;            // of the lane, from 1
  std::vector<std::int64_t> calls;  // that the rank has made, by lane
  std::string where;                // for texts: "the gather of 'blocks.0'"
  bool operator==(const WaitingPlace&) const = default;
};

// THREAD: the on_... methods on the driver, the others on any; a mutex guards the state.
class StandstillMachine final : public machine::Machine {
 public:
  StandstillMachine(int rank, int ranks);

  // This rank has waited there for long: tell it to the run.
  static machine::Message waits(const WaitingPlace& place);
  // A mismatch, once ranks stand still.
  std::optional<Failure> verdict() const;

  // --- machine ---

  enum Kind : std::uint32_t { kWaits = 1, kVerdict };
  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int, machine::Time) override { return {}; }

 private:
  std::vector<int> standing_still() const;
  bool waits_for_one_of(int rank, const std::vector<int>& others) const;
  std::string text_on(const std::vector<int>& ranks) const;
  machine::Actions to_others(const machine::Message& message) const;

  const int rank_;
  mutable std::mutex mutex_;                         // guards all that follows
  std::vector<std::optional<WaitingPlace>> places_;  // by rank: its latest
  std::optional<std::string> verdict_;
};

}  // namespace paceline::replica
