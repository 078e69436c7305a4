#include "paceline/torch/pipeline/weight_versions.h"

#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::pipeline {
namespace {

// The optimizer's tensors stay the same objects.
void move_to(const StageModule& leaves, const StageModule& version) {
  const auto from = version.parameters(), to = leaves.parameters();
  for (std::size_t i = 0; i < to.size(); ++i)
    if (to[i].requires_grad()) to[i].set_data(from[i].detach());
}

void copy_weights(const StageModule& from, const StageModule& into) {
  const at::NoGradGuard no_grad;
  const auto values = from.parameters(), places = into.parameters();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].requires_grad()) places[i].detach().copy_(values[i].detach());
}

}  // namespace

WeightVersions::WeightVersions(StageModule& module, VersionRule rule, int stage, int replica)
    : module_(module),
      rule_(std::move(rule)),
      stage_(stage),
      replica_(replica),
      versions_(rule_, stage, replica) {
  for (int i = 0; i < rule_.most_kept(stage); ++i) {
    clones_.push_back(module.copy());
    spare_.push_back(clones_.back().get());
  }
  of_version_[0] = std::exchange(spare_.back(), nullptr);
  spare_.pop_back();
  move_to(module_, *of_version_[0]);
}

StageModule& WeightVersions::forward(int micro_batch) {
  return *of_version_.at(versions_.forward(micro_batch));
}

StageModule& WeightVersions::backward(int micro_batch) {
  const StageVersions::Change change = versions_.backward(micro_batch);
  StageModule& used = *of_version_.at(change.version);
  free(change.freed);
  return used;
}

void WeightVersions::begin_version() {
  const int before = versions_.newest();
  const StageVersions::Change change = versions_.step();
  StageModule* const newest = of_version_.at(before);
  if (std::ranges::find(change.freed, before) != change.freed.end()) {
    of_version_[change.version] = newest;  // nobody uses the one before, so it becomes this one
    of_version_.erase(before);
    return;
  }
  free(change.freed);
  if (spare_.empty()) {
    throw_misuse(c10::str("stage ", stage_, " keeps ", clones_.size(),
                          " versions of its weights and needs one more"));
  }
  StageModule* const next = spare_.back();
  spare_.pop_back();
  copy_weights(*newest, *next);
  move_to(module_, *next);
  of_version_[change.version] = next;
}

void WeightVersions::restart() {
  StageModule* const newest = of_version_.at(versions_.newest());
  versions_ = StageVersions(rule_, stage_, replica_);
  of_version_ = {{0, newest}};
  spare_.clear();
  for (const auto& clone : clones_)
    if (clone.get() != newest) spare_.push_back(clone.get());
}

void WeightVersions::free(const std::vector<int>& versions) {
  for (const int version : versions) {
    const auto node = of_version_.extract(version);
    spare_.push_back(node.mapped());
  }
}

void WeightVersions::train(bool on) {
  for (const auto& clone : clones_) clone->train(on);
}

}  // namespace paceline::pipeline
