// Neighbours share a bucket of bounded size, which leaves as soon as its last gradient is ready.
// Reference: Li et al., PyTorch Distributed, VLDB 2020. docs/schedules/buckets.md
#include "paceline/core/schedule/order/buckets.h"

#include "paceline/core/schedule/policy/policies.h"
#include "paceline/core/schedule/policy/policy_catalogue.h"

namespace paceline::schedule::catalogue {
namespace {

Plan make(const Model& model, const Costs&, bool) {
  return schedule::buckets(model);
}

}  // namespace

Policy buckets() {
  return {.name = "buckets", .summary = "neighbours in buckets of bounded size", .make = make};
}

}  // namespace paceline::schedule::catalogue
