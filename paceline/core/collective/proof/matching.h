// The messages of all ranks' programs meet here, before anything is known about what they carry.
//
// The execution model of the proof and of the price: a rank posts all messages of a round together;
// a message moves when its send and its receive are both posted, first come first served between
// two ranks in one direction; a round ends when all its messages have moved. No send ends before
// its receive is there: the strictest case, so that a program that passes here waits for nobody in
// vain over any transport, however little that buffers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

struct StepAt {
  int rank = -1;
  int round = -1;
  int step = -1;
  bool operator==(const StepAt&) const = default;
};

struct RoundAt {
  int rank = -1;
  int round = -1;
  bool operator==(const RoundAt&) const = default;
};

// All programs' steps, numbered through: a table with a value for each step is one vector.
class StepNumbers {
 public:
  explicit StepNumbers(std::span<const Program> programs);
  std::size_t of(const StepAt& at) const;
  std::size_t count() const { return count_; }

 private:
  std::vector<std::vector<std::size_t>> first_of_round_;
  std::size_t count_ = 0;
};

struct Rendezvous {
  StepNumbers numbers;
  std::vector<StepAt> partners;  // by step number; rank -1 for local steps
  std::vector<RoundAt> ends;     // all rounds, in an order in which they can end

  const StepAt& partner(const StepAt& at) const { return partners[numbers.of(at)]; }
};

// A failure (misuse) when ranks wait for each other for ever: it names who waits where for whom.
// REQUIRES: peers are ranks, and nobody's own.
Result<Rendezvous> meet(std::span<const Program> programs);

const Step& step_at(std::span<const Program> programs, const StepAt& at);
std::string describe(std::span<const Program> programs,
                     const StepAt& at);  // "rank 1, round 0, step 2 (copy: ..)"
Failure fault_at(std::span<const Program> programs, const StepAt& at, std::string_view what);

}  // namespace paceline::collective
