#include "paceline/core/pipeline/versions/stage_versions.h"

#include <algorithm>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::pipeline {

StageVersions::StageVersions(VersionRule rule, int stage, int replica)
    : rule_(std::move(rule)), stage_(stage), next_(replica) {}

bool StageVersions::can_forward(int micro_batch) const {
  return rule_.version_of(stage_, micro_batch) <= newest();
}

int StageVersions::forward(int micro_batch) {
  PACELINE_CHECK(micro_batch == next_,
                 "stage {}: the forward of micro-batch {} comes where {} is the next one", stage_,
                 micro_batch, next_);
  const int version = rule_.version_of(stage_, micro_batch);
  PACELINE_CHECK(std::ranges::binary_search(kept_, version),
                 "stage {}: the forward of micro-batch {} uses version {} of the weights, which is "
                 "not there; the newest one is {}",
                 stage_, micro_batch, version, newest());
  used_[micro_batch] = version;
  next_ += rule_.replicas[static_cast<std::size_t>(stage_)];
  return version;
}

StageVersions::Change StageVersions::backward(int micro_batch) {
  const auto used = used_.find(micro_batch);
  PACELINE_CHECK(used != used_.end(),
                 "stage {}: the backward of micro-batch {} comes, which is not in flight", stage_,
                 micro_batch);
  const int version = used->second;
  used_.erase(used);
  return {version, drop_unused()};
}

bool StageVersions::ends_step(int micro_batch) const {
  if (rule_.sync != VersionSync::double_buffered) return true;
  return (micro_batch + 1) % rule_.micro_batches == 0;
}

StageVersions::Change StageVersions::step() {
  const int made = newest() + 1;
  kept_.push_back(made);
  return {made, drop_unused()};
}

// The versions that stay are the newest, those of micro-batches in flight, and those that the next
// forward or a later one uses, for the rule's versions never fall.
std::vector<int> StageVersions::drop_unused() {
  const int from = rule_.version_of(stage_, next_), last = newest();
  std::vector<int> freed;
  std::erase_if(kept_, [&](int version) {
    const bool is_used =
        std::ranges::any_of(used_, [version](const auto& one) { return one.second == version; });
    if (is_used || version >= from || version == last) return false;
    freed.push_back(version);
    return true;
  });
  return freed;
}

}  // namespace paceline::pipeline
