// GradientLayout: where gradients lie, and in which messages they travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/gradient/gradient_buckets.h"

namespace paceline::gradient {

// The places and the messages of gradients from some step on.
struct GradientLayout {
  std::vector<schedule::Bucket> groups = {};  // of parameters, in the order in which they lie
  std::size_t alignment = 1;                  // of each gradient, in bytes
  schedule::MessagePlan plan =
      {};  // over these groups' gradients, one after the other: a group for each
  schedule::Model model = {};  // of the plan
  bool is_in_order = true;     // messages travel one after the other
  BucketMemory memory = {};    // of the groups

  // Collective. `with_servers`: the job whose servers form the means of groups that the plan sends
  // there; null: there are none.
  std::unique_ptr<schedule::GradientPath> path(Communicator& group, Job* with_servers) const;
  bool compresses() const;
  std::vector<std::uint32_t> parameters() const;  // in send order
  // The groups, in the order of their first messages, up to the first that was not sent.
  std::size_t started(const std::vector<bool>& is_sent) const;
  // Whether gradients lie and travel as by the other one.
  bool is_like(const GradientLayout& other) const {
    return is_in_order && other.is_in_order && groups == other.groups &&
           plan.groups == other.plan.groups;
  }
  // The number of gradients that came after one that stands later in the groups.
  static int late_in(const std::vector<schedule::Bucket>& groups, std::span<const int> arrived);
};

// All gradients of the groups, one after the other.
std::vector<int> members_of(const std::vector<schedule::Bucket>& groups);

}  // namespace paceline::gradient
