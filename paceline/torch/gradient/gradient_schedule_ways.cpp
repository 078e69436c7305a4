// This part chooses the way of gradients, among the ranks or over the servers, by forecasts and by
// trials.
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>

#include "paceline/core/base/log.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/gradient_schedule.h"

namespace paceline::parallel {
namespace {

using schedule::Path;
using schedule::Plan;

// A new plan takes at most so much of the present one's time.
constexpr double kWorthAChange = 0.98;

}  // namespace

// The best by the forecast comes first. A policy that needs measured costs keeps its plan until
// there are some.
std::vector<Plan> GradientSchedule::ways(const schedule::Model& model) const {
  if (measures() && !costs_) return {*present_};
  const schedule::Costs costs = costs_.value_or(schedule::Costs());
  schedule::Costs among_ranks = costs, over_servers = costs;
  among_ranks.links.server.reset();
  if (costs.links.server) over_servers.links = schedule::through_servers(costs.links);
  std::vector<Plan> plans;
  if (chooses_path_ && policy_->chooses_codecs) plans.push_back(made(model, costs));
  else if (path_ != Path::server) plans.push_back(made(model, among_ranks));
  if (chooses_path_ || path_ == Path::server)
    plans.push_back(on_path(Path::server, made(model, over_servers)));
  if (!measures()) return plans;
  sort_by_forecast(plans, model);
  if (present_ && forecast(model, plans.front()) > kWorthAChange * forecast(model, *present_))
    return {*present_};
  for (Plan& plan : plans) plan = schedule::ordered(std::move(plan), model, costs);
  return plans;
}

Plan GradientSchedule::made(const schedule::Model& model, const schedule::Costs& costs) const {
  Plan plan = policy_->make(model, costs, crosses_barrier_);
  if (codec_ != schedule::kUncompressed && !policy_->chooses_codecs)
    plan = schedule::encoded(std::move(plan), codec_);
  return plan;
}

double GradientSchedule::forecast(const schedule::Model& model, const Plan& plan) const {
  return schedule::iteration_seconds(model, *costs_, plan);
}

// REQUIRES: costs were measured.
void GradientSchedule::sort_by_forecast(std::vector<Plan>& plans,
                                        const schedule::Model& model) const {
  std::ranges::stable_sort(plans, {}, [&](const Plan& plan) { return forecast(model, plan); });
}

GradientLayout GradientSchedule::agreed_buckets(Communicator& group) {
  if (!chooses_path_ || !costs_) return buckets();
  std::vector<std::uint8_t> over_servers(1);
  if (group.rank() == 0) {
    const GradientLayout layout = buckets();
    std::vector<Plan> plans = {on_path(Path::all_to_all, layout.plan),
                               on_path(Path::server, layout.plan)};
    sort_by_forecast(plans, layout.model);
    keep_other(layout.model, plans);
    over_servers[0] = plans.front().groups.front().path == Path::server;
  }
  group.broadcast(buffer_of(over_servers), 0).wait();
  path_ = over_servers[0] != 0 ? Path::server : Path::all_to_all;
  return buckets();
}

// --- trials of both ways -------------------------------------------------------------------------

// Keeps the second of the plans if its forecast is so close that both should be tried.
void GradientSchedule::keep_other(const schedule::Model& model, const std::vector<Plan>& plans) {
  other_.reset();
  if (!chooses_path_ || !costs_) return;
  tell_way(model, plans.front());
  if (plans.size() < 2 || plans[0].groups == plans[1].groups) return;
  if (schedule::PathTrial::is_needed(forecast(model, plans[0]), forecast(model, plans[1]),
                                     too_close_))
    other_ = plans[1];
}

void GradientSchedule::begin_trial(Communicator& group) {
  std::vector<std::uint8_t> tries = {other_.has_value()};
  group.broadcast(buffer_of(tries), 0).wait();
  if (tries[0] == 0) return;
  other_ = schedule::agreed(group, other_.value_or(Plan()));
  trial_.emplace();
}

GradientLayout GradientSchedule::go_the_other_way() {
  if (policy_ == nullptr) {
    path_ = path_ == Path::server ? Path::all_to_all : Path::server;
    return buckets();
  }
  std::swap(*present_, *other_);
  return by_plan(*present_);
}

// Rank 0's times count.
std::optional<GradientLayout> GradientSchedule::tried(Communicator& group, double seconds) {
  if (!trial_->took(seconds)) return std::nullopt;
  if (!trial_->is_over()) return go_the_other_way();
  std::vector<std::uint8_t> takes_other = {trial_->is_second_faster()};
  group.broadcast(buffer_of(takes_other), 0).wait();
  if (group.rank() == 0) tell_trial();
  trial_.reset();
  drift_.begin_anew();
  if (takes_other[0] != 0) return std::nullopt;
  return go_the_other_way();
}

void GradientSchedule::tell_trial() const {
  constexpr double kMilli = 1e3;
  log_info(
      c10::str("aggregate automatic: the forecasts of both ways were close, so each was taken "
               "for ",
               schedule::PathTrial::kSteps, " steps: the one with the shorter forecast took ",
               kMilli * trial_->first_seconds(), " ms a step, the other one ",
               kMilli * trial_->second_seconds(), " ms; the training goes on with the ",
               trial_->is_second_faster() ? "other" : "first", " one"));
}

void GradientSchedule::tell_way(const schedule::Model& model, const Plan& plan) const {
  constexpr double kMilli = 1e3;
  const auto milliseconds = [&](const Plan& of) { return kMilli * forecast(model, of); };
  log_info(
      c10::str("aggregate automatic: schedule '", name_, "' takes a step of ", milliseconds(plan),
               " ms by the forecast; with all of its gradients among the "
               "ranks ",
               milliseconds(on_path(Path::all_to_all, plan)), " ms, with all over the servers ",
               milliseconds(on_path(Path::server, plan)), " ms"));
}

}  // namespace paceline::parallel
