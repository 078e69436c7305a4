// When gradients travel and with which others: decided once, from what was seen in the first steps.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/collective/communicator.h"
#include "paceline/core/schedule/observed_model.h"
#include "paceline/core/schedule/policy_table.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/parallel/data_parallel.h"
#include "paceline/torch/parallel/gradient_carrier.h"
#include "paceline/torch/parallel/model_parts.h"

namespace paceline::parallel {

// How gradients lie and travel from some step on.
struct GradientLayout {
  std::vector<schedule::Bucket> groups;  // of parameters, in the order in which they lie
  std::size_t alignment = 0;             // of each gradient, in bytes
  // Over these groups' gradients, one after the other. None: each group is a message, in order.
  std::optional<schedule::Plan> plan = {};
  schedule::Model model = {};  // of the plan

  // Collective.
  std::unique_ptr<GradientCarrier> carrier(Communicator& group) const;
};

// The first step goes by the order of registration, in buckets, uncompressed. Then rank 0's order
// counts; a policy that needs times sees some steps more, with buckets in that order.
class GradientSchedule {
 public:
  // `dense`: at least one. THROWS Error (misuse): a schedule or compression that there is none of,
  // that does not fit the parameters' types or `static_order`.
  GradientSchedule(std::span<const Parameter> dense, int ranks, const DataParallelOptions& options);

  GradientLayout first() const;
  // Nothing more will change.
  bool is_settled() const { return settled_; }
  // Collective, at the end of each step until it is settled. Nothing: the present layout goes on.
  std::optional<GradientLayout> next(Communicator& group, schedule::ObservedStep step);
  // How many gradients came after one that stands later in the groups.
  static int late_in(const std::vector<schedule::Bucket>& groups, std::span<const int> arrived);

 private:
  GradientLayout in_buckets(std::span<const int> order) const;
  GradientLayout by_policy(Communicator& group) const;
  schedule::Model model_of(std::span<const int> order, std::size_t alignment) const;
  schedule::Plan planned(const schedule::Model& model, const schedule::Costs& costs) const;

  std::vector<schedule::Gradient> shapes_;  // by parameter
  std::vector<std::size_t> rows_;           // by parameter: see schedule::Tensor
  schedule::BucketCaps caps_;
  const schedule::Policy* policy_;  // nullptr: buckets
  std::string codec_;
  bool crosses_barrier_;
  bool settled_;
  std::vector<int> order_;  // rank 0's, once it was seen
  std::vector<schedule::ObservedStep> seen_;
};

}  // namespace paceline::parallel
