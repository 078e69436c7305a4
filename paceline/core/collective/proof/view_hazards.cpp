#include "paceline/core/collective/proof/view_hazards.h"

#include <fmt/format.h>

#include "paceline/core/collective/program/cells.h"
#include "paceline/core/collective/program/compiled_program.h"

namespace paceline::collective {
namespace {

// The rounds, of this and of other ranks, that must have ended before a round can end.
class Waits {
 public:
  Waits(std::span<const Program> programs, const Rendezvous& meeting, bool in_place)
      : programs_(programs), meeting_(meeting), in_place_(in_place) {
    for (const Program& program : programs) {
      first_.push_back(before_.size());
      before_.resize(before_.size() + program.rounds.size());
      plans_.push_back(make_plan(program, static_cast<int>(programs.size())));
    }
    for (int rank = 0; rank < static_cast<int>(programs.size()); ++rank) list(rank);
  }

  Result<Done> check() const {
    std::vector<int> open(before_.size());
    std::vector<std::vector<std::size_t>> after(before_.size());
    std::vector<std::size_t> ready;
    for (std::size_t round = 0; round < before_.size(); ++round) {
      open[round] = static_cast<int>(before_[round].size());
      for (const std::size_t earlier : before_[round]) after[earlier].push_back(round);
      if (open[round] == 0) ready.push_back(round);
    }
    std::size_t ended = 0;
    for (; !ready.empty(); ++ended) {
      const std::size_t round = ready.back();
      ready.pop_back();
      for (const std::size_t later : after[round]) {
        if (--open[later] == 0) ready.push_back(later);
      }
    }
    if (ended == before_.size()) return Done{};
    for (const Held& held : held_) {
      if (open[held.round] == 0) continue;
      return fault_at(programs_, held.writing,
                      fmt::format("writes what rank {} still reads as a view, which waits for it",
                                  held.reader));
    }
    return Failure{Fault::misuse, "rounds wait for each other", {}};
  }

 private:
  struct Held {
    std::size_t round;
    StepAt writing;
    int reader;
  };

  std::size_t number(int rank, int round) const {
    return first_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(round);
  }

  void list(int rank) {
    const Program& program = programs_[static_cast<std::size_t>(rank)];
    const Cells cells(program, in_place_);
    std::vector<std::vector<StepAt>> sends(cells.count());  // by cell: of earlier rounds
    for (int r = 0; r < static_cast<int>(program.rounds.size()); ++r) {
      auto& before = before_[number(rank, r)];
      const Round& round = program.rounds[static_cast<std::size_t>(r)];
      if (r > 0) before.push_back(number(rank, r - 1));
      for (int i = 0; i < static_cast<int>(round.size()); ++i) {
        const StepAt at{rank, r, i};
        const Step& step = round[static_cast<std::size_t>(i)];
        if (is_send(step) || is_recv(step)) {
          const StepAt& other = meeting_.partner(at);
          if (other.round > 0) before.push_back(number(other.rank, other.round - 1));
        }
        const auto slot = written_slot(step);
        if (!slot || cells.is_idle(step)) continue;
        for (const StepAt& send : sends[cells.of(*slot)]) wait_for_view(at, meeting_.partner(send));
      }
      for (int i = 0; i < static_cast<int>(round.size()); ++i) {
        const Step& step = round[static_cast<std::size_t>(i)];
        if (is_send(step)) sends[cells.of(step.source)].push_back({rank, r, i});
      }
    }
  }

  void wait_for_view(const StepAt& writing, const StepAt& receiving) {
    const auto& rounds = plans_[static_cast<std::size_t>(receiving.rank)]->rounds;
    const Action& action =
        rounds[static_cast<std::size_t>(receiving.round)][static_cast<std::size_t>(receiving.step)];
    if (action.view_until < 0) return;
    const std::size_t round = number(writing.rank, writing.round);
    before_[round].push_back(number(receiving.rank, action.view_until));
    held_.push_back({round, writing, receiving.rank});
  }

  std::span<const Program> programs_;
  const Rendezvous& meeting_;
  const bool in_place_;
  std::vector<std::size_t> first_;                // by rank
  std::vector<std::vector<std::size_t>> before_;  // by round of all ranks
  std::vector<std::shared_ptr<const ProgramPlan>> plans_;
  std::vector<Held> held_;
};

}  // namespace

Result<Done> check_views(std::span<const Program> programs, const Rendezvous& meeting,
                         bool in_place) {
  return Waits(programs, meeting, in_place).check();
}

}  // namespace paceline::collective
