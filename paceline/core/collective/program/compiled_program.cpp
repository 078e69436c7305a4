#include "paceline/core/collective/program/compiled_program.h"

#include <algorithm>
#include <array>

namespace paceline::collective {
namespace {

bool reads(const Step& step, const Slot& slot) {
  switch (step.kind) {
    case Step::Kind::send:
    case Step::Kind::store:
    case Step::Kind::copy: return step.source == slot;
    case Step::Kind::reduce: return step.source == slot || step.operand == slot;
    case Step::Kind::recv_reduce: return step.operand == slot;
    case Step::Kind::recv: return false;
  }
  return false;
}

bool writes(const Step& step, const Slot& slot) {
  return step.kind != Step::Kind::send && step.kind != Step::Kind::store && step.target == slot;
}

// The last round that reads what a step in `round` puts into this scratch slot; -1 when something
// but a reduction does, or nothing.
int last_reduction(const Program& program, std::size_t round, const Slot& slot) {
  int last = -1;
  for (std::size_t r = round + 1; r < program.rounds.size(); ++r) {
    bool overwritten = false;
    for (const Step& step : program.rounds[r]) {
      if (reads(step, slot)) {
        if (step.kind != Step::Kind::reduce) return -1;
        last = static_cast<int>(r);
      }
      overwritten |= writes(step, slot);
    }
    if (overwritten) break;
  }
  return last;
}

void note_stores(ProgramPlan& plan) {
  for (std::size_t r = 0; r + 1 < plan.rounds.size(); ++r) {
    for (Action& action : plan.rounds[r]) {
      if (action.step.kind != Step::Kind::reduce) continue;
      const auto& next = plan.rounds[r + 1];
      const bool all_its_own = std::ranges::all_of(next, [&](const Action& other) {
        return other.step.kind != Step::Kind::store || other.step.source == action.step.target;
      });
      if (!all_its_own) continue;  // the round counts as stored as a whole
      for (std::size_t i = 0; i < next.size(); ++i) {
        const Step& step = next[i].step;
        if (step.kind == Step::Kind::store && step.source == action.step.target)
          action.stores.push_back(static_cast<int>(i));
      }
    }
  }
}

// Marks the partial sums that need not be rounded.
void note_wide_sums(ProgramPlan& plan, const Program& program) {
  std::vector<bool> is_wide(static_cast<std::size_t>(program.scratch_places));
  const auto holds_wide = [&](const Slot& slot) {
    return slot.space == Slot::Space::scratch && is_wide[static_cast<std::size_t>(slot.place)];
  };
  for (std::size_t r = 0; r < plan.rounds.size(); ++r) {
    for (Action& action : plan.rounds[r]) {
      const Step& step = action.step;
      if (step.kind == Step::Kind::recv_reduce && !step.completes) plan.rounds_once = false;
      if (step.kind != Step::Kind::reduce) continue;
      action.wide_source = holds_wide(step.source);
      action.wide_operand = holds_wide(step.operand);
      action.wide_target = !step.completes && step.target.space == Slot::Space::scratch &&
                           last_reduction(program, r, step.target) >= 0;
      plan.has_wide_sums |= action.wide_target;
      plan.rounds_once &= step.completes || action.wide_target;
    }
    for (const Action& action : plan.rounds[r]) {
      const Slot& target = action.step.target;
      const bool writes_here =
          action.step.kind != Step::Kind::send && action.step.kind != Step::Kind::store;
      if (!writes_here || target.space != Slot::Space::scratch) continue;
      is_wide[static_cast<std::size_t>(target.place)] = action.wide_target;
    }
  }
}

// The slots that a step names; a step leaves those that its kind does not use as they are made.
std::array<Slot*, 3> slots_of(Step& step) {
  return {&step.source, &step.operand, &step.target};
}

std::vector<int> chunks_of(Program& program) {
  std::vector<int> chunks;
  for (Round& round : program.rounds)
    for (Step& step : round)
      for (const Slot* slot : slots_of(step)) chunks.push_back(slot->chunk);
  std::ranges::sort(chunks);
  chunks.erase(std::ranges::unique(chunks).begin(), chunks.end());
  return chunks;
}

// `chunks`: the numbers that remain, in ascending order; each becomes its place there.
void renumber(Program& program, const std::vector<int>& chunks) {
  program.chunks = static_cast<int>(chunks.size());
  for (Round& round : program.rounds)
    for (Step& step : round)
      for (Slot* slot : slots_of(step))
        slot->chunk =
            static_cast<int>(std::ranges::lower_bound(chunks, slot->chunk) - chunks.begin());
}

ProgramPlan plan_of(const Program& program, int ranks) {
  ProgramPlan plan;
  plan.chunks = program.chunks;
  plan.scratch_places = program.scratch_places;
  plan.receives.resize(static_cast<std::size_t>(ranks));
  plan.sends.resize(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < program.rounds.size(); ++r) {
    auto& actions = plan.rounds.emplace_back();
    for (const Step& step : program.rounds[r]) {
      Action action{.step = step};
      plan.stores = plan.stores || step.kind == Step::Kind::store;
      if (step.kind == Step::Kind::send || step.kind == Step::Kind::store) {
        action.number = plan.sends[static_cast<std::size_t>(step.peer)]++;
      } else if (step.kind == Step::Kind::recv || step.kind == Step::Kind::recv_reduce) {
        auto& from = plan.receives[static_cast<std::size_t>(step.peer)];
        action.number = static_cast<int>(from.size());
        from.push_back({static_cast<int>(r), static_cast<int>(actions.size())});
        if (step.kind == Step::Kind::recv && step.target.space == Slot::Space::scratch) {
          action.view_until = last_reduction(program, r, step.target);
        }
      }
      actions.push_back(action);
    }
  }
  note_stores(plan);
  note_wide_sums(plan, program);
  return plan;
}

}  // namespace

std::shared_ptr<const ProgramPlan> make_plan(const Program& program, int ranks) {
  return std::make_shared<const ProgramPlan>(plan_of(program, ranks));
}

std::shared_ptr<const ProgramPlan> make_plan_of_touched_chunks(Program program, int ranks) {
  std::vector<int> touched = chunks_of(program);
  renumber(program, touched);
  ProgramPlan plan = plan_of(program, ranks);
  plan.program_chunks = std::move(touched);
  return std::make_shared<const ProgramPlan>(std::move(plan));
}

}  // namespace paceline::collective
