// When gradients travel and with which others: decided once, from what was seen in the first steps.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/gradient/gradient_layout.h"
#include "paceline/torch/gradient/schedule_options.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::gradient {

// The decisions made so far, as a checkpoint keeps them.
struct ScheduleDecision {
  std::vector<int> order;                          // of gradients: rank 0's
  std::optional<schedule::MessagePlan> plan = {};  // of a policy
  // The choice for each parameter, if the compression has a menu.
  std::optional<schedule::OfferChoice::State> choice = {};
};

// The first step goes by the order of registration, in buckets, uncompressed. Then rank 0's order
// counts; a policy that needs times sees some steps more, with buckets in that order. When steps
// take another time than they did then, it measures and plans again, but keeps a plan that a new
// one would hardly beat. With aggregate "automatic" it makes one plan for the ranks and one for the
// servers, and takes the one with the shorter forecast; where the forecasts are close, the training
// takes each for some steps, and goes on with the faster one (schedule/adapt/step_times.h). If the
// compression has a menu, it chooses from it (schedule/adapt/gradient_sums.h).
class GradientSchedule {
 public:
  // `dense`: at least one. THROWS Error (misuse): a schedule or compression that there is none of,
  // that does not fit the parameters' types or `static_order`. `with_servers`: the job whose
  // servers may average; it outlives this. Two plans are tried where their forecasts differ by
  // less than this share of the shorter one, `too_close`.
  GradientSchedule(std::span<const replica::Parameter> dense, int ranks,
                   const DataParallelOptions& options, Job* with_servers = nullptr,
                   double too_close = schedule::PathTrial::kTooClose);

  GradientLayout first() const;
  // Whether it wants to see the gradients of this step, before they go on their way.
  bool sees_gradients() const { return choice_ && !is_observing_ && choice_->sees_gradients(); }
  void see(std::size_t parameter, std::span<const float> gradient) {
    choice_->see(parameter, gradient);
  }
  // Collective, at the end of each step. Nothing: the present layout goes on.
  std::optional<GradientLayout> next(Communicator& group, schedule::ObservedStep step);
  int plans() const { return plans_; }  // how often it planned
  int looks() const { return choice_ ? choice_->looks() : 0; }
  // Nothing: it is not decided yet.
  std::optional<ScheduleDecision> decision() const;
  // Goes on by a decision that was made by the same schedule for the same parameters. THROWS Error
  // (misuse): it does not fit them.
  GradientLayout restore(const ScheduleDecision& decision);
  const std::string& compression() const { return compression_; }  // with all settings
  // All that a decision follows from beside what is observed.
  std::string options() const;

 private:
  bool measures() const { return (policy_ != nullptr && policy_->is_measured) || chooses_path_; }
  GradientLayout in_buckets(std::span<const int> order) const;
  GradientLayout bucketed(std::span<const int> order, std::size_t alignment) const;
  std::optional<GradientLayout> after_first(Communicator& group, std::span<const int> arrived);
  bool has_drifted(Communicator& group, double seconds);
  std::optional<GradientLayout> by_policy(Communicator& group);
  void tell_what_may_vary() const;
  GradientLayout by_agreed_plan(Communicator& group);
  schedule::Offers chosen(const schedule::Allowance& allowance,
                          const schedule::Offers& present) const;
  GradientLayout by_plan(const schedule::MessagePlan& plan) const;
  // From the next step on gradients take the way that they do not take now.
  GradientLayout go_the_other_way();
  void begin_trial(Communicator& group);
  std::optional<GradientLayout> tried(Communicator& group, double seconds);
  void tell_trial() const;
  GradientLayout buckets() const;
  std::vector<schedule::Tensor> tensors(std::size_t alignment) const;
  schedule::Model model_of(std::span<const int> order, std::size_t alignment) const;
  schedule::MessagePlan planned(const schedule::Model& model) const { return ways(model).front(); }
  std::vector<schedule::MessagePlan> ways(const schedule::Model& model) const;
  schedule::MessagePlan made(const schedule::Model& model, const schedule::Costs& costs) const;
  double forecast(const schedule::Model& model, const schedule::MessagePlan& plan) const;
  void sort_by_forecast(std::vector<schedule::MessagePlan>& plans,
                        const schedule::Model& model) const;
  void keep_other(const schedule::Model& model, const std::vector<schedule::MessagePlan>& plans);
  void tell_way(const schedule::Model& model, const schedule::MessagePlan& plan) const;
  GradientLayout agreed_buckets(Communicator& group);

  std::vector<schedule::Gradient> shapes_;  // by parameter
  std::vector<std::size_t> rows_;           // by parameter: see schedule::Tensor
  schedule::BucketCaps caps_;
  const schedule::Policy* policy_;  // nullptr: buckets
  std::string name_, codec_;
  std::string compression_;  // the codec, with all settings
  WholeTensors whole_tensors_;
  bool crosses_barrier_;
  Job* const with_servers_;
  const bool chooses_path_;   // by forecasts
  schedule::Path path_;       // of what no policy has planned
  std::vector<int> order_;    // rank 0's, once it was seen
  bool is_observing_ = true;  // for the next plan
  std::vector<schedule::ObservedStep> seen_;
  std::optional<schedule::Costs> costs_;  // of the last plan that was measured here
  std::optional<schedule::MessagePlan> present_;
  const double too_close_;
  std::optional<schedule::MessagePlan>
      other_;  // the plan that a trial compares with the present one
  std::optional<schedule::PathTrial> trial_;
  std::optional<schedule::OfferChoice> choice_;  // of a compression with a menu
  int plans_ = 0;
  schedule::Drift drift_;
};

}  // namespace paceline::gradient
