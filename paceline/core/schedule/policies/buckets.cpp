// Neighbours share a bucket of bounded size, which leaves as soon as its last gradient is ready.
// Reference: Li et al., PyTorch Distributed, VLDB 2020. docs/schedules/buckets.md
#include <vector>

#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"

namespace paceline::schedule {

MessagePlan buckets(const Model& model, const BucketCaps& caps) {
  std::vector<Gradient> gradients;
  std::vector<int> order;
  for (int place = 0; place < model.size(); ++place) {
    gradients.push_back({.bytes = model.sent(place).bytes});
    order.push_back(place);
  }
  return plan_of("buckets", cuts_of(plan_buckets(gradients, order, caps)), {});
}

namespace catalogue {

Policy buckets() {
  return {.name = "buckets",
          .summary = "neighbours in buckets of bounded size",
          .make = [](const Model& model, const Costs&, bool) { return schedule::buckets(model); }};
}

}  // namespace catalogue
}  // namespace paceline::schedule
