#include "paceline/core/collective/program/cells.h"

#include <algorithm>

namespace paceline::collective {

Reads::Reads(const Step& step) {
  using Kind = Step::Kind;
  if (is_send(step) || step.kind == Kind::copy || step.kind == Kind::reduce) {
    slots_[count_++] = step.source;
  }
  if (step.kind == Kind::recv_reduce || step.kind == Kind::reduce) slots_[count_++] = step.operand;
}

std::optional<Slot> written_slot(const Step& step) {
  if (is_send(step)) return std::nullopt;
  return step.target;
}

bool is_send(const Step& step) {
  return step.kind == Step::Kind::send || step.kind == Step::Kind::store;
}

bool is_recv(const Step& step) {
  return step.kind == Step::Kind::recv || step.kind == Step::Kind::recv_reduce;
}

std::size_t Cells::of(const Slot& slot) const {
  int cell = slot.chunk;
  if (slot.space == Slot::Space::output && !in_place_) cell = chunks_ + slot.chunk;
  if (slot.space == Slot::Space::scratch) cell = 2 * chunks_ + slot.place;
  return static_cast<std::size_t>(cell);
}

bool Cells::reads(const Step& step, std::size_t cell) const {
  return std::ranges::any_of(Reads(step), [&](const Slot& slot) { return of(slot) == cell; });
}

bool Cells::writes(const Step& step, std::size_t cell) const {
  const auto slot = written_slot(step);
  return slot && of(*slot) == cell && !is_idle(step);
}

bool Cells::is_idle(const Step& step) const {
  return step.kind == Step::Kind::copy && of(step.source) == of(step.target) && !step.completes;
}

}  // namespace paceline::collective
