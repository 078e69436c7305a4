#include "paceline/torch/gradient/gradient_schedule.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::gradient {
namespace {

using schedule::Bucket;
using schedule::MessagePlan;
using schedule::Path;

// Steps in which times are taken, after the one that showed the order: the first ones allocate.
constexpr std::size_t kTimedSteps = 3;

// A new plan takes at most so much of the present one's time.
constexpr double kWorthAChange = 0.98;

schedule::Model with_offers(schedule::Model model, const schedule::Offers& offers) {
  for (std::size_t i = 0; i < offers.size(); ++i) model.tensors[i].offer = offers[i];
  return model;
}

// Codecs see no gaps.
std::size_t alignment_of(std::string_view codec) {
  return codec == schedule::kUncompressed ? kSlotAlignment : size_of(Dtype::f32);
}

}  // namespace

GradientSchedule::GradientSchedule(std::span<const replica::Parameter> dense, int ranks,
                                   const DataParallelOptions& options, Job* with_servers,
                                   double too_close)
    : caps_{options.first_bucket_bytes, options.bucket_bytes},
      policy_(policy_of(options)),
      name_(options.schedule),
      codec_(options.compression),
      crosses_barrier_(static_cast<bool>(options.optimizer)),
      with_servers_(with_servers),
      chooses_path_(with_servers != nullptr && aggregates_by_forecast(options)),
      path_(with_servers == nullptr || chooses_path_ ? Path::all_to_all : Path::server),
      too_close_(too_close) {
  for (const replica::Parameter& parameter : dense) {
    shapes_.push_back({parameter.tensor.nbytes(), *dtype_of(parameter.tensor.scalar_type()), 0});
    rows_.push_back(matrix_rows(parameter.tensor));
  }
  const auto compression = checked_compression(codec_, dense, ranks);
  compression_ = compression ? compression->text() : codec_;
  if (compression) whole_tensors_ = whole_tensors_of(*compression, dense);
  if (compression && !compression->menu.empty()) choice_.emplace(*compression, tensors(1));
  if (policy_ != nullptr) require_one_type(options.schedule, dense);
  if (options.static_order)
    order_ = schedule::reverse_registration_order(static_cast<int>(shapes_.size()));
}

GradientLayout GradientSchedule::first() const {
  return in_buckets(schedule::reverse_registration_order(static_cast<int>(shapes_.size())));
}

GradientLayout GradientSchedule::in_buckets(std::span<const int> order) const {
  return bucketed(order, kSlotAlignment);
}

GradientLayout GradientSchedule::bucketed(std::span<const int> order, std::size_t alignment) const {
  GradientLayout layout{.groups = schedule::plan_buckets(shapes_, order, caps_),
                        .alignment = alignment};
  layout.model = model_of(members_of(layout.groups), alignment);
  layout.plan =
      schedule::plan_of(std::string(kBuckets), schedule::cuts_of(layout.groups), {.path = path_});
  return layout;
}

std::optional<GradientLayout> GradientSchedule::next(Communicator& group,
                                                     schedule::ObservedStep step) {
  if (order_.empty()) return after_first(group, step.arrived);
  if (!is_observing_) {
    if (choice_ && choice_->end_step(group, [this](const auto& allowance, const auto& present) {
          return chosen(allowance, present);
        }))
      return by_agreed_plan(group);
    if (trial_) return tried(group, step.seconds);
    if (!measures() || !has_drifted(group, step.seconds)) return std::nullopt;
    is_observing_ = true;
    seen_.clear();
    return std::nullopt;
  }
  seen_.push_back(std::move(step));
  if (measures() && seen_.size() < kTimedSteps) return std::nullopt;
  return by_policy(group);
}

std::optional<GradientLayout> GradientSchedule::after_first(Communicator& group,
                                                            std::span<const int> arrived) {
  std::vector<std::int64_t> order;
  for (const int index : schedule::completed_order(arrived, static_cast<int>(shapes_.size())))
    order.push_back(index);
  group.broadcast(buffer_of(order), 0).wait();
  order_.assign(order.begin(), order.end());
  return measures() ? in_buckets(order_) : by_policy(group);
}

// Rank 0 decides for all ranks.
bool GradientSchedule::has_drifted(Communicator& group, double seconds) {
  drift_.took(seconds);
  if (!drift_.is_time_to_look()) return false;
  std::vector<std::uint8_t> drifted = {drift_.has_drifted()};
  group.broadcast(buffer_of(drifted), 0).wait();
  return drifted[0] != 0;
}

// One tensor for each parameter, with the length that it takes in memory.
std::vector<schedule::Tensor> GradientSchedule::tensors(std::size_t alignment) const {
  std::vector<schedule::Tensor> tensors;
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    tensors.push_back({.bytes = aligned_size(shapes_[i].bytes, alignment), .rows = rows_[i]});
    if (choice_) tensors.back().offer = choice_->present()[i];
  }
  return tensors;
}

// In the order of `order`.
schedule::Model GradientSchedule::model_of(std::span<const int> order,
                                           std::size_t alignment) const {
  return schedule::observed_model(tensors(alignment), order, seen_);
}

GradientLayout GradientSchedule::buckets() const {
  if (codec_ == schedule::kUncompressed) return in_buckets(order_);
  GradientLayout layout = bucketed(order_, alignment_of(codec_));
  layout.plan = schedule::encoded(std::move(layout.plan), codec_);
  layout.is_in_order = false;
  return layout;
}

std::optional<GradientLayout> GradientSchedule::by_policy(Communicator& group) {
  if (++plans_ == 1 && group.rank() == 0) {
    tell_what_may_vary();
    if (whole_tensors_.are_all) warn(whole_tensors_.text);
    else if (!whole_tensors_.text.empty()) log_info(whole_tensors_.text);
  }
  is_observing_ = false;
  if (measures()) {
    const schedule::Model model = model_of(order_, alignment_of(codec_));
    costs_ = schedule::measured_costs(group, std::vector{codec_},
                                      schedule::streamed_like({&model, 1}), with_servers_);
    costs_->compute_threads = std::min<double>(at::get_num_threads(), costs_->processors);
  }
  const auto before = present_;
  auto layout = by_agreed_plan(group);
  if (present_ && present_ == before) return std::nullopt;
  if (chooses_path_) begin_trial(group);
  return layout;
}

// Once a run: numbers that differ from run to run look like a defect to those who do not expect it.
void GradientSchedule::tell_what_may_vary() const {
  if (policy_ == nullptr || !policy_->chooses_codecs || codec_ == schedule::kUncompressed) return;
  const std::string text = c10::str(
      "schedule '", name_,
      "' decides by times that it measures which gradients travel "
      "as ",
      compression_,
      " and which travel whole, so results may differ from run to run. To fix "
      "the choice, resume from a checkpoint of a run that has made it (paceline::Checkpoints), or "
      "take a schedule that encodes all of them, such as 'merged'");
  log_info(text);
}

// For the offers that were chosen.
GradientLayout GradientSchedule::by_agreed_plan(Communicator& group) {
  drift_.begin_anew();
  trial_.reset();
  if (policy_ == nullptr) return agreed_buckets(group);
  MessagePlan best;
  if (group.rank() == 0) {
    const schedule::Model model = model_of(order_, alignment_of(codec_));
    const std::vector<MessagePlan> plans = ways(model);
    keep_other(model, plans);
    best = plans.front();
  }
  present_ = schedule::agreed(group, best);
  return by_plan(*present_);
}

// Chooses by times if they were measured, else by bytes.
schedule::Offers GradientSchedule::chosen(const schedule::Allowance& allowance,
                                          const schedule::Offers& present) const {
  if (!costs_) return schedule::fewest_bytes_offers(allowance, present);
  const schedule::Model model = model_of(order_, alignment_of(codec_));
  const std::vector<int> forward(order_.rbegin(), order_.rend());
  const auto in_forward_order = [&](const auto& by_parameter) {
    std::decay_t<decltype(by_parameter)> turned;
    for (const int i : forward) turned.push_back(by_parameter[static_cast<std::size_t>(i)]);
    return turned;
  };
  const auto seconds = [&](const schedule::Offers& offers) {
    const schedule::Model changed = with_offers(model, offers);
    return schedule::iteration_seconds(changed, *costs_, planned(changed));
  };
  const auto found = schedule::fastest_offers(
      {in_forward_order(allowance.menus), allowance.most_error}, in_forward_order(present), model,
      costs_->links, costs_->codec(codec_), seconds);
  schedule::Offers offers(found.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    offers[static_cast<std::size_t>(forward[i])] = found[i];
  return offers;
}

GradientLayout GradientSchedule::by_plan(const MessagePlan& plan) const {
  GradientLayout layout{.alignment = alignment_of(codec_), .plan = plan, .is_in_order = false};
  layout.model = model_of(order_, layout.alignment);
  for (const schedule::MessageGroup& run : plan.groups) {
    Bucket bucket{.dtype = shapes_.front().dtype};
    for (int place = run.begin; place < run.end; ++place) {
      const int gradient = order_[static_cast<std::size_t>(place)];
      bucket.gradients.push_back(gradient);
      bucket.bytes += shapes_[static_cast<std::size_t>(gradient)].bytes;
    }
    layout.groups.push_back(std::move(bucket));
  }
  return layout;
}

std::string GradientSchedule::options() const {
  return c10::str("schedule ", name_, ", compression ", compression_, ", first_bucket_bytes ",
                  caps_.first_bytes, ", bucket_bytes ", caps_.bytes,
                  crosses_barrier_ ? ", optimizers" : "",
                  with_servers_ == nullptr ? ""
                  : chooses_path_          ? ", automatic"
                                           : ", server");
}

std::optional<ScheduleDecision> GradientSchedule::decision() const {
  if (plans_ == 0) return std::nullopt;
  ScheduleDecision decision{order_, present_};
  if (choice_) decision.choice = choice_->state();
  return decision;
}

GradientLayout GradientSchedule::restore(const ScheduleDecision& decision) {
  const auto tensors = static_cast<int>(shapes_.size());
  auto sorted = decision.order;
  std::ranges::sort(sorted);
  std::vector<int> all(shapes_.size());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all || decision.plan.has_value() != (policy_ != nullptr))
    throw_misuse("the saved schedule belongs to another model: load another checkpoint, or none");
  if (decision.plan) schedule::check(*decision.plan, tensors);
  if (choice_ && decision.choice) choice_->restore(*decision.choice);
  order_ = decision.order;
  present_ = decision.plan;
  is_observing_ = false;
  plans_ = std::max(plans_, 1);
  drift_.begin_anew();
  trial_.reset();
  if (policy_ != nullptr) return by_plan(*present_);
  return buckets();
}

// --- the ways of gradients, among the ranks or over the servers, by forecasts --------------------

// The best by the forecast comes first. A policy that needs measured costs keeps its plan until
// there are some.
std::vector<MessagePlan> GradientSchedule::ways(const schedule::Model& model) const {
  if (measures() && !costs_) return {*present_};
  const schedule::Costs costs = costs_.value_or(schedule::Costs());
  schedule::Costs among_ranks = costs, over_servers = costs;
  among_ranks.links.server.reset();
  if (costs.links.server) over_servers.links = schedule::through_servers(costs.links);
  std::vector<MessagePlan> plans;
  if (chooses_path_ && policy_->chooses_codecs) plans.push_back(made(model, costs));
  else if (path_ != Path::server) plans.push_back(made(model, among_ranks));
  if (chooses_path_ || path_ == Path::server)
    plans.push_back(on_path(Path::server, made(model, over_servers)));
  if (!measures()) return plans;
  sort_by_forecast(plans, model);
  if (present_ && forecast(model, plans.front()) > kWorthAChange * forecast(model, *present_))
    return {*present_};
  for (MessagePlan& plan : plans) plan = schedule::ordered(std::move(plan), model, costs);
  return plans;
}

MessagePlan GradientSchedule::made(const schedule::Model& model,
                                   const schedule::Costs& costs) const {
  MessagePlan plan = policy_->make(model, costs, crosses_barrier_);
  if (codec_ != schedule::kUncompressed && !policy_->chooses_codecs)
    plan = schedule::encoded(std::move(plan), codec_);
  return plan;
}

double GradientSchedule::forecast(const schedule::Model& model, const MessagePlan& plan) const {
  return schedule::iteration_seconds(model, *costs_, plan);
}

// REQUIRES: costs were measured.
void GradientSchedule::sort_by_forecast(std::vector<MessagePlan>& plans,
                                        const schedule::Model& model) const {
  std::ranges::stable_sort(plans, {},
                           [&](const MessagePlan& plan) { return forecast(model, plan); });
}

GradientLayout GradientSchedule::agreed_buckets(Communicator& group) {
  if (!chooses_path_ || !costs_) return buckets();
  std::vector<std::uint8_t> over_servers(1);
  if (group.rank() == 0) {
    const GradientLayout layout = buckets();
    std::vector<MessagePlan> plans = {on_path(Path::all_to_all, layout.plan),
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
void GradientSchedule::keep_other(const schedule::Model& model,
                                  const std::vector<MessagePlan>& plans) {
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
  other_ = schedule::agreed(group, other_.value_or(MessagePlan()));
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

void GradientSchedule::tell_way(const schedule::Model& model, const MessagePlan& plan) const {
  constexpr double kMilli = 1e3;
  const auto milliseconds = [&](const MessagePlan& of) { return kMilli * forecast(model, of); };
  log_info(
      c10::str("aggregate automatic: schedule '", name_, "' takes a step of ", milliseconds(plan),
               " ms by the forecast; with all of its gradients among the "
               "ranks ",
               milliseconds(on_path(Path::all_to_all, plan)), " ms, with all over the servers ",
               milliseconds(on_path(Path::server, plan)), " ms"));
}

}  // namespace paceline::gradient
