#include "paceline/core/collective/proof/symbolic_run.h"

#include <fmt/format.h>

#include "paceline/core/collective/program/contract.h"

namespace paceline::collective {

SymbolicRun::SymbolicRun(Operation operation, const Shape& shape, std::span<const Program> programs,
                         const Rendezvous& meeting, bool in_place, Symbols& symbols)
    : programs_(programs), meeting_(meeting), symbols_(symbols), sent_(meeting.numbers.count()) {
  for (const Program& program : programs) {
    cells_.emplace_back(program, in_place);
    memory_.emplace_back(cells_.back().count());
  }
  fill_inputs(operation, shape);
}

void SymbolicRun::fill_inputs(Operation operation, const Shape& shape) {
  Shape at = shape;
  for (at.rank = 0; at.rank < shape.ranks; ++at.rank) {
    for (int chunk = 0; chunk < programs_[0].chunks; ++chunk) {
      if (!has_input(operation, at, chunk)) continue;
      cell(at.rank, input(chunk)) = {symbols_.leaf(at.rank), chunk, false};
    }
  }
}

Result<Done> SymbolicRun::run() {
  for (int rank = 0; rank < static_cast<int>(programs_.size()); ++rank) begin({rank, 0});
  for (const RoundAt& at : meeting_.ends) {
    if (auto ended = end(at); !ended) return ended;
    begin({at.rank, at.round + 1});
  }
  return Done{};
}

const Value& SymbolicRun::value(int rank, const Slot& slot) const {
  const auto r = static_cast<std::size_t>(rank);
  return memory_[r][cells_[r].of(slot)];
}

Value& SymbolicRun::cell(int rank, const Slot& slot) {
  const auto r = static_cast<std::size_t>(rank);
  return memory_[r][cells_[r].of(slot)];
}

const Round& SymbolicRun::round_at(const RoundAt& at) const {
  return programs_[static_cast<std::size_t>(at.rank)].rounds[static_cast<std::size_t>(at.round)];
}

// A send carries what its slot holds when its round begins; the receive may take it after the
// sender has moved on.
void SymbolicRun::begin(const RoundAt& at) {
  if (static_cast<std::size_t>(at.round) ==
      programs_[static_cast<std::size_t>(at.rank)].rounds.size()) {
    return;
  }
  int i = 0;
  for (const Step& step : round_at(at)) {
    if (is_send(step))
      sent_[meeting_.numbers.of({at.rank, at.round, i})] = value(at.rank, step.source);
    ++i;
  }
}

// All steps see memory as it was before the round; then all writes happen.
Result<Done> SymbolicRun::end(const RoundAt& at) {
  std::vector<Write> writes;
  const Cells& cells = cells_[static_cast<std::size_t>(at.rank)];
  int i = -1;
  for (const Step& step : round_at(at)) {
    const StepAt here{at.rank, at.round, ++i};
    if (cells.is_idle(step)) continue;
    Result<Value> result = result_of(here);
    if (!result) return result.error();
    if (const auto slot = written_slot(step)) writes.push_back({cells.of(*slot), *result});
  }
  for (const Write& write : writes)
    memory_[static_cast<std::size_t>(at.rank)][write.cell] = write.value;
  return Done{};
}

Result<Value> SymbolicRun::result_of(const StepAt& at) {
  const Step& step = step_at(programs_, at);
  switch (step.kind) {
    case Step::Kind::send:
    case Step::Kind::store: return read(at, step.source);
    case Step::Kind::recv: return received(at);
    case Step::Kind::copy: {
      Result<Value> value = read(at, step.source);
      return value && step.completes ? completed(at, *value) : value;
    }
    case Step::Kind::recv_reduce: {
      Result<Value> own = read(at, step.operand), theirs = received(at);
      if (!own) return own;
      if (!theirs) return theirs;
      return step.operand_is_left ? add(at, *own, *theirs) : add(at, *theirs, *own);
    }
    case Step::Kind::reduce: {
      Result<Value> left = read(at, step.source), right = read(at, step.operand);
      if (!left) return left;
      if (!right) return right;
      return add(at, *left, *right);
    }
  }
  return fault_at(programs_, at, "is of no known kind");
}

Result<Value> SymbolicRun::read(const StepAt& at, const Slot& slot) const {
  // In the sender's own round this is what it posted: nothing of a round reads what the round
  // writes.
  const Value& found = value(at.rank, slot);
  if (found.sum < 0) {
    return fault_at(programs_, at,
                    fmt::format("reads {}, which nothing has written", to_string(slot)));
  }
  if (found.chunk != slot.chunk) {
    return fault_at(programs_, at,
                    fmt::format("reads {}, where chunk {} lies", to_string(slot), found.chunk));
  }
  return found;
}

Result<Value> SymbolicRun::received(const StepAt& at) const {
  const StepAt& sender = meeting_.partner(at);
  const Step &theirs = step_at(programs_, sender), &ours = step_at(programs_, at);
  const auto meets = [&] { return fmt::format("meets {}: ", describe(programs_, sender)); };
  if (theirs.source.chunk != ours.target.chunk) {
    return fault_at(programs_, at, meets() + "the chunks differ");
  }
  if (theirs.kind == Step::Kind::store &&
      (ours.kind != Step::Kind::recv || theirs.target != ours.target)) {
    return fault_at(programs_, at, meets() + "a store needs a recv of the same slot");
  }
  const Value& sent = sent_[meeting_.numbers.of(sender)];
  if (sent.sum < 0 || sent.chunk != theirs.source.chunk) return read(sender, theirs.source);
  return sent;
}

Result<Value> SymbolicRun::add(const StepAt& at, const Value& left, const Value& right) {
  if (const auto twice = symbols_.shared_rank(left.sum, right.sum)) {
    return fault_at(programs_, at, fmt::format("counts rank {} twice", *twice));
  }
  const Value sum{symbols_.sum(left.sum, right.sum), left.chunk, false};
  if (step_at(programs_, at).completes) return completed(at, sum);
  if (symbols_.is_whole(sum.sum)) {
    return fault_at(programs_, at, "finishes the sum, but is not marked complete");
  }
  return sum;
}

Result<Value> SymbolicRun::completed(const StepAt& at, Value value) const {
  if (value.complete) return fault_at(programs_, at, "completes what is complete already");
  if (!symbols_.is_whole(value.sum)) {
    return fault_at(programs_, at,
                    fmt::format("is marked complete, but holds only {}", symbols_.text(value.sum)));
  }
  value.complete = true;
  return value;
}

}  // namespace paceline::collective
