// The versions of the weights that one rank of a pipeline keeps, by their numbers: a pure value,
// which the owner of the tensors tells what happens, and which answers what to use and what to
// free.
#pragma once

#include <map>
#include <vector>

#include "paceline/core/pipeline/versions/version_rule.h"

namespace paceline::pipeline {

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
