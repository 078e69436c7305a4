#include "paceline/core/pipeline/versions/version_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

}  // namespace paceline::pipeline
