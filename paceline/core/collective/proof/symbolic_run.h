// Runs all ranks' programs together on symbols instead of numbers.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/program/cells.h"
#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/matching.h"
#include "paceline/core/collective/proof/symbols.h"

namespace paceline::collective {

// The contents of a slot: a sum of contributions to one chunk.
struct Value {
  Symbols::Id sum = -1;  // -1: nothing was ever written
  int chunk = -1;
  bool complete = false;  // a step marked `completes` has made it: an average is scaled
  bool operator==(const Value&) const = default;
};

class SymbolicRun {
 public:
  // REQUIRES: the programs have passed check_form and met as `meeting` says; all of these outlive
  // the run.
  SymbolicRun(Operation operation, const Shape& shape, std::span<const Program> programs,
              const Rendezvous& meeting, bool in_place, Symbols& symbols);

  // Refuses: reading what nothing has written, or another chunk than what lies there; a message
  // into another chunk; a contribution counted twice; `completes` on a step that does not finish a
  // sum, or missing on one that does.
  Result<Done> run();

  const Value& value(int rank, const Slot& slot) const;

 private:
  struct Write {
    std::size_t cell;
    Value value;
  };

  void begin(const RoundAt& at);
  Result<Done> end(const RoundAt& at);
  Result<Value> result_of(const StepAt& at);
  Result<Value> read(const StepAt& at, const Slot& slot) const;
  Result<Value> received(const StepAt& at) const;
  Result<Value> add(const StepAt& at, const Value& left, const Value& right);
  Result<Value> completed(const StepAt& at, Value value) const;
  void fill_inputs(Operation operation, const Shape& shape);

  const Round& round_at(const RoundAt& at) const;
  Value& cell(int rank, const Slot& slot);

  std::span<const Program> programs_;
  const Rendezvous& meeting_;
  Symbols& symbols_;
  std::vector<Cells> cells_;                // by rank
  std::vector<std::vector<Value>> memory_;  // by rank and cell
  std::vector<Value> sent_;                 // by step number: what a send carries
};

}  // namespace paceline::collective
