#include "paceline/core/collective/proof/timeline.h"

#include <algorithm>

namespace paceline::collective {

Timeline timeline(std::span<const Program> programs, const Rendezvous& meeting, int local_round) {
  Timeline found;
  for (const Program& program : programs) found.begins.emplace_back(program.rounds.size() + 1, 0);
  // When a round ends, all rounds that its messages wait for have ended before.
  for (const RoundAt& at : meeting.ends) {
    const Program& program = programs[static_cast<std::size_t>(at.rank)];
    const Round& round = program.rounds[static_cast<std::size_t>(at.round)];
    const int begin = found.begin(at.rank, at.round);
    int last_message = -1;
    for (int i = 0; i < static_cast<int>(round.size()); ++i) {
      const StepAt& partner = meeting.partner({at.rank, at.round, i});
      if (partner.rank < 0) continue;
      last_message = std::max({last_message, begin, found.begin(partner.rank, partner.round)});
    }
    const int end =
        last_message >= 0 ? last_message + 1 : begin + (round.empty() ? 0 : local_round);
    found.begins[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.round) + 1] = end;
    found.end = std::max(found.end, end);
  }
  return found;
}

}  // namespace paceline::collective
