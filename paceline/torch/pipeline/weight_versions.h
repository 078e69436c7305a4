// WeightVersions: the weights of one stage of a pipeline without a flush, in the versions that
// micro-batches in flight still use (core/pipeline/versions/).
//
// A version is a clone of the stage: its trained parameters have storages of their own, its buffers
// are the stage's. Forwards and backwards run on clones alone. The stage itself has the parameters
// that its optimizer steps; they have the storages of the newest version and move on to the next
// one's, so there are as many sets of weights as versions. (With other weights between a forward
// and its backward some layers, such as Conv2d, would silently take these, and an update in place
// makes others throw.)
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/pipeline/stage_module.h"

namespace paceline::pipeline {

// THREAD: one.
class WeightVersions {
 public:
  // The stage's values are version 0. `module`, the stage, outlives this, and keeps the storages of
  // the newest version. `replica`: which one of the stage's ranks this is. THROWS Error (misuse): a
  // layer cannot be cloned.
  WeightVersions(StageModule& module, VersionRule rule, int stage, int replica = 0);

  // The version of the micro-batch is there. (StageVersions::can_forward)
  bool can_forward(int micro_batch) const { return versions_.can_forward(micro_batch); }
  // The clone on which the micro-batch's forward runs, and its backward.
  StageModule& forward(int micro_batch);
  // Its backward ends. The clone is free for another version if nobody else uses it, but keeps its
  // values and gradients until begin_version().
  StageModule& backward(int micro_batch);
  // Its gradient is the last one of a step.
  bool ends_step(int micro_batch) const { return versions_.ends_step(micro_batch); }
  // The stage has a new version, which begins with the values of the newest: the optimizer may step
  // it. REQUIRES: the gradients of the clone that backward() returned were taken.
  void begin_version();
  // Micro-batches are counted from 0 again. REQUIRES: none is in flight.
  void restart();

  int kept() const { return static_cast<int>(versions_.kept().size()); }
  void train(bool on);

 private:
  void free(const std::vector<int>& versions);

  StageModule& module_;
  const VersionRule rule_;
  const int stage_, replica_;
  StageVersions versions_;
  std::vector<std::shared_ptr<StageModule>> clones_;
  std::map<int, StageModule*> of_version_;
  std::vector<StageModule*> spare_;
};

}  // namespace paceline::pipeline
