// When the rounds of all ranks begin, if every message takes the same time, whatever its length.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::collective {

// In the time of one message, which moves as soon as both ranks have begun its rounds.
struct Timeline {
  std::vector<std::vector<int>> begins;  // by rank and round; the last one: when the rank has ended
  int end = 0;                           // when all have ended

  int begin(int rank, int round) const {
    return begins[static_cast<std::size_t>(rank)][static_cast<std::size_t>(round)];
  }
};

// `local_round`: what a round of local steps alone takes. REQUIRES: the programs have met as
// `meeting` says.
Timeline timeline(std::span<const Program> programs, const Rendezvous& meeting, int local_round);

}  // namespace paceline::collective
