// The versions of the weights that one rank of a pipeline keeps, by their numbers: a pure value,
// which the owner of the tensors tells what happens, and which answers what to use and what to
// free.
#pragma once

#include <map>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/pipeline/order/order.h"
#include "paceline/core/pipeline/order/schedule_catalogue.h"

namespace paceline::pipeline {

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

class StageVersions {
 public:
  // It has version 0. After a drain a pipeline may begin anew, with the newest version as version 0
  // and micro-batches from 0. `replica`: which one of its stage's ranks this is.
  StageVersions(VersionRule rule, int stage, int replica = 0);

  // The number of an operation's version, and the versions that nobody will use any more.
  struct Change {
    int version = 0;
    std::vector<int> freed = {};
  };

  // The version of the micro-batch is there, so that its forward may begin. (Of a stage with
  // replicas it may be missing until the others have ended their round.)
  bool can_forward(int micro_batch) const;
  // Returns the version that its forward uses. REQUIRES: can_forward; the rank's micro-batches come
  // in their order.
  int forward(int micro_batch);
  // Returns the version that its backward uses: its forward's. REQUIRES: it is in flight.
  Change backward(int micro_batch);
  // Its gradient is the last one of a step.
  bool ends_step(int micro_batch) const;
  // The step's gradient, summed over the stage's replicas, has made a new version, which is
  // returned. If the one before it is freed, the step may be made in its place.
  Change step();

  const std::vector<int>& kept() const { return kept_; }  // in rising order
  int newest() const { return kept_.back(); }
  int in_flight() const { return static_cast<int>(used_.size()); }

 private:
  std::vector<int> drop_unused();

  VersionRule rule_;
  int stage_, next_;  // next_: its next forward
  std::vector<int> kept_ = {0};
  std::map<int, int> used_;  // by micro-batch in flight: its version
};

}  // namespace paceline::pipeline
