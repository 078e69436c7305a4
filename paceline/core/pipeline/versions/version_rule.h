// Tells which version of the weights computes which micro-batch in a pipeline without a flush.
//
// The weights before the first step are version 0; every step of a stage makes the next one. In
// words, with L the limit of micro-batches in flight at a stage (in_flight_limits, turns.h):
//
//   stash            micro-batch j uses version max(0, j - L + 1), the stage's newest one. Of S
//                    stages without replicas, stage s lags S - 1 - s steps behind. A stage with
//                    replicas steps once a round, in which each of its ranks computes one
//                    micro-batch: round i uses version max(0, i - L), one older than the newest,
//                    for else its ranks would wait for each other.
//   vertical         micro-batch j uses version max(0, j - S + 1) on every stage, so that its
//                    gradient is that of one set of weights.
//   double_buffered  all micro-batches of batch t use version max(0, t - 1) on every stage, also
//                    when version t is there.
//
// The gradients of a round, or of a batch, are added up. Forward and backward of a micro-batch use
// the same version; the gradient is applied to the newest one.
// Narayanan et al., PipeDream, SOSP 2019; Memory-Efficient Pipeline-Parallel DNN Training, ICML
// 2021.
#pragma once

#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/pipeline/order/order.h"
#include "paceline/core/pipeline/order/schedule_catalogue.h"

namespace paceline::pipeline {

struct VersionRule {
  VersionSync sync = VersionSync::stash;
  std::vector<int> replicas;  // of each stage
  int micro_batches = 1;      // of a batch, if double_buffered

  int stages() const { return static_cast<int>(replicas.size()); }
  // The largest number of micro-batches that a rank of the stage has in flight.
  int in_flight_limit(int stage) const;
  // The version that forward and backward of the micro-batch use.
  int version_of(int stage, int micro_batch) const;
  // The version to which the micro-batch's gradient leads.
  int made_by(int stage, int micro_batch) const;
  // The largest number of versions that a rank of the stage keeps at a time, with the newest.
  int most_kept(int stage) const;
  bool operator==(const VersionRule&) const = default;
};

// A failure (misuse): the schedule is synchronous; it has replicas but no stashing; or
// double_buffered gets too few micro-batches.
Result<VersionRule> version_rule(const ScheduleChoice& choice, const Placement& placement,
                                 int micro_batches);

}  // namespace paceline::pipeline
