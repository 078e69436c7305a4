#include "paceline/torch/parallel/gradient_schedule.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "paceline/core/base/base.h"
#include "paceline/core/compress/compression.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/parallel/gradient_buckets.h"

namespace paceline::parallel {
namespace {

using schedule::Bucket;
using schedule::Plan;

constexpr std::string_view kBuckets = "buckets";

// Steps in which times are taken, after the one that showed the order: the first ones allocate.
constexpr std::size_t kTimedSteps = 3;

// A new plan takes at most so much of the present one's time.
constexpr double kWorthAChange = 0.98;

const schedule::Policy* policy_of(const DataParallelOptions& options) {
  if (options.schedule == kBuckets) return nullptr;
  const schedule::Policy* policy = nullptr;
  try {
    policy = &schedule::policy(options.schedule);
  } catch (const Error& error) {
    throw_misuse(
        c10::str("DataParallelOptions::schedule: ", error.failure().what, " (or ", kBuckets, ")"));
  }
  if (policy->is_measured && options.static_order) {
    throw_misuse(c10::str("DataParallelOptions::schedule '", options.schedule,
                          "' follows from what the first steps show, and static_order shows "
                          "nothing: leave one of them out"));
  }
  return policy;
}

// With all settings. Tries it on each parameter, so that what does not fit is told before the first
// step.
std::string checked_compression(const std::string& text, std::span<const Parameter> parameters,
                                int ranks) {
  if (text == schedule::kUncompressed) return text;
  const auto compression = compress::parse_compression(text, compress::built_in_methods());
  if (!compression) {
    throw_misuse(c10::str("DataParallelOptions::compression: ", compression.error().what, " (or ",
                          schedule::kUncompressed, ")"));
  }
  for (const Parameter& parameter : parameters) {
    if (parameter.tensor.scalar_type() != at::kFloat) {
      throw_misuse(c10::str("DataParallelOptions::compression: '", text,
                            "' compresses gradients of float32, and parameter '", parameter.name,
                            "' is of ", parameter.tensor.scalar_type(),
                            ": convert the model with model.to(torch::kFloat), or leave the "
                            "compression out"));
    }
  }
  (void)compression.value().averaging({.rows = 2, .columns = 1 << 20, .ranks = ranks});
  return compression.value().text();
}

void require_one_type(std::string_view what, std::span<const Parameter> parameters) {
  for (const Parameter& parameter : parameters) {
    if (parameter.tensor.scalar_type() == parameters.front().tensor.scalar_type()) continue;
    throw_misuse(c10::str(
        "DataParallelOptions::schedule: '", what,
        "' carries gradients of one type, and parameter '", parameter.name, "' is of ",
        parameter.tensor.scalar_type(), " where '", parameters.front().name, "' is of ",
        parameters.front().tensor.scalar_type(), ": convert the model, or use ", kBuckets));
  }
}

std::vector<int> flat(const std::vector<Bucket>& groups) {
  std::vector<int> all;
  for (const Bucket& group : groups)
    all.insert(all.end(), group.gradients.begin(), group.gradients.end());
  return all;
}

// Codecs see no gaps.
std::size_t alignment_of(std::string_view codec) {
  return codec == schedule::kUncompressed ? kSlotAlignment : size_of(Dtype::f32);
}

}  // namespace

std::size_t matrix_rows(const at::Tensor& tensor) {
  return tensor.dim() < 2 ? 1 : static_cast<std::size_t>(tensor.size(0));
}

std::unique_ptr<GradientCarrier> GradientLayout::carrier(Communicator& group,
                                                         double mean_weight) const {
  if (!plan) return carrier_in_order(group, groups);
  const std::vector<int> parameters = flat(groups);
  return carrier_by_plan(group, model, *plan, groups.front().dtype, mean_weight,
                         {parameters.begin(), parameters.end()});
}

GradientSchedule::GradientSchedule(std::span<const Parameter> dense, int ranks, Job* job,
                                   const DataParallelOptions& options)
    : job_(job),
      caps_{options.first_bucket_bytes, options.bucket_bytes},
      policy_(policy_of(options)),
      name_(options.schedule),
      codec_(options.compression),
      crosses_barrier_(options.optimizer != nullptr) {
  for (const Parameter& parameter : dense) {
    shapes_.push_back({parameter.tensor.nbytes(), *dtype_of(parameter.tensor.scalar_type()), 0});
    rows_.push_back(matrix_rows(parameter.tensor));
  }
  compression_ = checked_compression(codec_, dense, ranks);
  if (policy_ != nullptr) require_one_type(options.schedule, dense);
  if (options.static_order)
    order_ = schedule::reverse_registration_order(static_cast<int>(shapes_.size()));
}

GradientLayout GradientSchedule::first() const {
  return in_buckets(schedule::reverse_registration_order(static_cast<int>(shapes_.size())));
}

GradientLayout GradientSchedule::in_buckets(std::span<const int> order) const {
  return {.groups = schedule::plan_buckets(shapes_, order, caps_), .alignment = kSlotAlignment};
}

std::optional<GradientLayout> GradientSchedule::next(Communicator& group,
                                                     schedule::ObservedStep step) {
  if (order_.empty()) return after_first(group, step.arrived);
  if (!is_observing_) {
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

// As rank 0 finds.
bool GradientSchedule::has_drifted(Communicator& group, double seconds) {
  drift_.took(seconds);
  if (!drift_.is_time_to_look()) return false;
  std::vector<std::uint8_t> drifted = {drift_.has_drifted()};
  group.broadcast(buffer_of(drifted), 0).wait();
  return drifted[0] != 0;
}

// In the order of `order`, each as long as it lies.
schedule::Model GradientSchedule::model_of(std::span<const int> order,
                                           std::size_t alignment) const {
  std::vector<schedule::Tensor> tensors;
  for (std::size_t i = 0; i < shapes_.size(); ++i)
    tensors.push_back({.bytes = aligned_size(shapes_[i].bytes, alignment), .rows = rows_[i]});
  return schedule::observed_model(tensors, order, seen_);
}

// In the order of the buckets.
GradientLayout GradientSchedule::coded_buckets() const {
  GradientLayout layout = in_buckets(order_);
  layout.alignment = alignment_of(codec_);
  layout.model = model_of(flat(layout.groups), layout.alignment);
  schedule::Cuts cuts = {0};
  for (const Bucket& bucket : layout.groups)
    cuts.push_back(cuts.back() + static_cast<int>(bucket.gradients.size()));
  layout.plan = schedule::encoded(schedule::plan_of(std::string(kBuckets), cuts, {}), codec_);
  return layout;
}

std::optional<GradientLayout> GradientSchedule::by_policy(Communicator& group) {
  ++plans_;
  is_observing_ = false;
  drift_.begin_anew();
  if (policy_ == nullptr)
    return codec_ == schedule::kUncompressed ? in_buckets(order_) : coded_buckets();
  const schedule::Model model = model_of(order_, alignment_of(codec_));
  schedule::Costs costs;
  if (measures()) {
    costs = schedule::measured_costs(group, job_, std::vector{codec_},
                                     schedule::streamed_like({&model, 1}));
    costs.compute_threads = std::min<double>(at::get_num_threads(), costs.processors);
  }
  Plan plan = schedule::agreed(group, group.rank() == 0 ? planned(model, costs) : Plan());
  if (plan == present_) return std::nullopt;
  present_ = std::move(plan);
  return by_plan(*present_);
}

GradientLayout GradientSchedule::by_plan(const Plan& plan) const {
  GradientLayout layout{.groups = {}, .alignment = alignment_of(codec_), .plan = plan};
  layout.model = model_of(order_, layout.alignment);
  for (const schedule::Group& run : plan.groups) {
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
                  crosses_barrier_ ? ", optimizers" : "");
}

std::optional<ScheduleDecision> GradientSchedule::decision() const {
  if (plans_ == 0) return std::nullopt;
  return ScheduleDecision{order_, present_};
}

GradientLayout GradientSchedule::restore(const ScheduleDecision& decision) {
  const auto tensors = static_cast<int>(shapes_.size());
  auto sorted = decision.order;
  std::ranges::sort(sorted);
  std::vector<int> all(shapes_.size());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all || decision.plan.has_value() != (policy_ != nullptr))
    throw_misuse("the saved schedule is none of this model's: load another checkpoint, or none");
  if (decision.plan) schedule::check(*decision.plan, tensors);
  order_ = decision.order;
  present_ = decision.plan;
  is_observing_ = false;
  plans_ = std::max(plans_, 1);
  drift_.begin_anew();
  if (policy_ != nullptr) return by_plan(*present_);
  return codec_ == schedule::kUncompressed ? in_buckets(order_) : coded_buckets();
}

Plan GradientSchedule::planned(const schedule::Model& model, const schedule::Costs& costs) const {
  Plan plan = policy_->make(model, costs, crosses_barrier_);
  if (codec_ != schedule::kUncompressed && !policy_->chooses_codecs)
    plan = schedule::encoded(std::move(plan), codec_);
  if (!measures()) return plan;
  const auto seconds = [&](const Plan& of) {
    return schedule::iteration_seconds(model, costs, of);
  };
  if (present_ && seconds(plan) > kWorthAChange * seconds(*present_)) return *present_;
  return schedule::ordered(std::move(plan), model, costs);
}

int GradientSchedule::late_in(const std::vector<Bucket>& groups, std::span<const int> arrived) {
  const std::vector<int> order = flat(groups);
  std::vector<int> place(order.size(), 0);
  for (std::size_t at = 0; at < order.size(); ++at)
    place[static_cast<std::size_t>(order[at])] = static_cast<int>(at);
  int late = 0, furthest = -1;
  for (int index : arrived) {
    late += place[static_cast<std::size_t>(index)] < furthest;
    furthest = std::max(furthest, place[static_cast<std::size_t>(index)]);
  }
  return late;
}

}  // namespace paceline::parallel
