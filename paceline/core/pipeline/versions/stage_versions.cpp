#include "paceline/core/pipeline/versions/stage_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/pipeline/order/turns.h"

namespace paceline::pipeline {
namespace {

Failure no_rule(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

}  // namespace

int VersionRule::in_flight_limit(int stage) const {
  return in_flight_limits(replicas)[static_cast<std::size_t>(stage)];
}

int VersionRule::made_by(int stage, int micro_batch) const {
  if (sync == VersionSync::double_buffered) return micro_batch / micro_batches + 1;
  return micro_batch / replicas[static_cast<std::size_t>(stage)] + 1;
}

int VersionRule::version_of(int stage, int micro_batch) const {
  const int replicas_here = replicas[static_cast<std::size_t>(stage)];
  if (sync == VersionSync::double_buffered) return std::max(0, micro_batch / micro_batches - 1);
  if (sync == VersionSync::vertical) return std::max(0, micro_batch - stages() + 1);
  const int limit = in_flight_limit(stage), newest = replicas_here > 1 ? 0 : 1;
  return std::max(0, micro_batch / replicas_here - limit + newest);
}

int VersionRule::most_kept(int stage) const {
  if (sync == VersionSync::double_buffered) return 2;
  if (sync == VersionSync::vertical) return stages();
  const bool has_replicas = replicas[static_cast<std::size_t>(stage)] > 1;
  return in_flight_limit(stage) + (has_replicas ? 1 : 0);
}

Result<VersionRule> version_rule(const ScheduleChoice& choice, const Placement& placement,
                                 int micro_batches) {
  const Schedule& schedule = choice.entry;
  if (schedule.is_synchronous()) {
    return no_rule(fmt::format(
        "{} ends each batch before it steps, so its stages have one version of the weights",
        schedule.name));
  }
  if (schedule.refuses != nullptr) {
    if (auto why = schedule.refuses(placement.ranks, micro_batches))
      return no_rule(*std::move(why));
  }
  VersionRule rule{.sync = schedule.versions(choice.settings),
                   .replicas = placement.replicas,
                   .micro_batches = micro_batches};
  if (rule.replicas.empty()) rule.replicas.assign(static_cast<std::size_t>(placement.stages), 1);
  const bool has_replicas = std::ranges::any_of(rule.replicas, [](int r) { return r > 1; });
  if (has_replicas && rule.sync != VersionSync::stash) {
    return no_rule(fmt::format(
        "{} gives all stages the same version, and stages with replicas step less often than those "
        "without: give each stage one rank, or choose pipedream:sync=stash",
        choice.text()));
  }
  return rule;
}

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
