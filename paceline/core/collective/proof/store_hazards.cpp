#include "paceline/core/collective/proof/store_hazards.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "paceline/core/collective/program/cells.h"

namespace paceline::collective {
namespace {

class StoreCheck {
 public:
  StoreCheck(std::span<const Program> programs, const Rendezvous& meeting, bool in_place)
      : programs_(programs), meeting_(meeting) {
    for (const Program& program : programs) cells_.emplace_back(program, in_place);
    list_uses();
  }

  // Every step of the peer up to its receive must leave the slot alone, or be over before the
  // store.
  Result<Done> check(const StepAt& storing) const {
    const StepAt& receiving = meeting_.partner(storing);
    const Cells& cells = cells_of(receiving.rank);
    const std::size_t cell = cells.of(step_at(programs_, storing).target);
    for (const StepAt& use : uses(receiving.rank, cell)) {
      if (use == receiving || use.round > receiving.round) continue;
      if (cells.writes(step_at(programs_, use), cell) || !was_given_before(use, storing)) {
        return fault_at(
            programs_, storing,
            fmt::format("may land while {} still uses the slot", describe(programs_, use)));
      }
    }
    return Done{};
  }

 private:
  // Lists the steps that read or write each cell of each rank, in order.
  void list_uses() {
    for (int rank = 0; rank < static_cast<int>(programs_.size()); ++rank) {
      auto& of_rank = uses_.emplace_back(cells_of(rank).count());
      const auto& rounds = programs_[static_cast<std::size_t>(rank)].rounds;
      for (int r = 0; r < static_cast<int>(rounds.size()); ++r) {
        for (int i = 0; i < static_cast<int>(rounds[static_cast<std::size_t>(r)].size()); ++i) {
          const StepAt at{rank, r, i};
          const Step& step = step_at(programs_, at);
          if (cells_of(rank).is_idle(step)) continue;
          for (const Slot& slot : Reads(step)) of_rank[cells_of(rank).of(slot)].push_back(at);
          if (const auto slot = written_slot(step)) of_rank[cells_of(rank).of(*slot)].push_back(at);
        }
      }
    }
  }

  const Cells& cells_of(int rank) const { return cells_[static_cast<std::size_t>(rank)]; }
  const std::vector<StepAt>& uses(int rank, std::size_t cell) const {
    return uses_[static_cast<std::size_t>(rank)][cell];
  }

  // A send to the storing rank, which was through with it before the round that stores.
  bool was_given_before(const StepAt& reading, const StepAt& storing) const {
    const Step& step = step_at(programs_, reading);
    if (!is_send(step) || step.peer != storing.rank) return false;
    const StepAt& taking = meeting_.partner(reading);
    if (taking.round >= storing.round) return false;
    const Slot& into = step_at(programs_, taking).target;
    const bool is_view =
        step_at(programs_, taking).kind == Step::Kind::recv && into.space == Slot::Space::scratch;
    return !is_view || view_has_ended(taking, into, storing.round);
  }

  // The view lasts until something else is written to its place. Passed on, its reader could be
  // anybody at any time.
  bool view_has_ended(const StepAt& taking, const Slot& view, int storing_round) const {
    const Cells& cells = cells_of(taking.rank);
    const std::size_t cell = cells.of(view);
    int last_round = std::numeric_limits<int>::max();  // in which the view can still be read
    for (const StepAt& use : uses(taking.rank, cell)) {
      if (use.round <= taking.round || use.round > last_round) continue;
      const Step& step = step_at(programs_, use);
      if (cells.reads(step, cell) && (use.round >= storing_round || is_send(step))) return false;
      if (cells.writes(step, cell)) last_round = use.round;
    }
    return true;
  }

  std::span<const Program> programs_;
  const Rendezvous& meeting_;
  std::vector<Cells> cells_;                            // by rank
  std::vector<std::vector<std::vector<StepAt>>> uses_;  // by rank and cell
};

bool stores_anything(std::span<const Program> programs) {
  const auto is_store = [](const Step& step) { return step.kind == Step::Kind::store; };
  return std::ranges::any_of(programs, [&](const Program& program) {
    return std::ranges::any_of(
        program.rounds, [&](const Round& round) { return std::ranges::any_of(round, is_store); });
  });
}

}  // namespace

Result<Done> check_stores(std::span<const Program> programs, const Rendezvous& meeting,
                          bool in_place) {
  if (!stores_anything(programs)) return Done{};
  const StoreCheck stores(programs, meeting, in_place);
  for (int rank = 0; rank < static_cast<int>(programs.size()); ++rank) {
    const auto& rounds = programs[static_cast<std::size_t>(rank)].rounds;
    for (int r = 0; r < static_cast<int>(rounds.size()); ++r) {
      const Round& round = rounds[static_cast<std::size_t>(r)];
      for (int i = 0; i < static_cast<int>(round.size()); ++i) {
        if (round[static_cast<std::size_t>(i)].kind != Step::Kind::store) continue;
        if (auto safe = stores.check({rank, r, i}); !safe) return safe;
      }
    }
  }
  return Done{};
}

}  // namespace paceline::collective
