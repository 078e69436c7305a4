// Solver: one method at work on one problem, on one rank of a group. The door of solver.
//
// The catalogue of methods is solver_catalogue.h. They are made of these: steps on dual variables
// (dual_block.h) or on weights (coordinate_block.h), the samples' order (sample_order.h), a rank's
// features (feature_part.h), what ranks exchange (vector_exchange.h), and rounds that several
// methods share (cocoa_rounds.h, coordinate_rounds.h, admm_rounds.h with consensus.h). Start
// reading at cocoa_rounds.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/linear/data/split.h"
#include "paceline/linear/problem/problem.h"

namespace paceline::linear {

// The work of a solver: data, split and ranks. All ranks give the same values. The references
// outlive the solver.
struct SolverContext {
  const Problem& problem;
  const Samples& samples;  // of all ranks; a solver takes its rank's part of them
  Split split = Split::shuffled;
  Communicator& group;
  std::uint64_t seed = 1;

  // This rank's samples, where samples are split; the objective is measured on them too.
  std::vector<std::size_t> own_samples() const;
};

// THREAD: one thread, the same for all calls. All ranks of the group call round() and weights() in
// the same order; they block, and throw Error when the group fails.
class Solver {
 public:
  virtual ~Solver() = default;

  // Works on this rank's part of the data, and exchanges what came out with the other ranks.
  virtual void round() = 0;
  // All weights, the same to the bit on every rank. May gather them from the ranks.
  virtual std::vector<double> weights() = 0;
  // This rank's dual variables, one for each of own_samples(), for which the weights are (or, for
  // ADMM, become) those that the dual objective stands for. Empty: the method has none. Valid until
  // the next round.
  virtual std::span<const double> dual_variables() const = 0;
  // Bytes that this rank has brought to the exchanges of its rounds so far.
  virtual std::uint64_t bytes_brought() const = 0;
  // A sentence for the user about how the rounds went; empty: nothing is worth saying.
  virtual std::string remark() const = 0;
};

}  // namespace paceline::linear
