// The policies of the gradient path: each makes a plan of a model. `general` searches (general.h).
// docs/schedules/ has a page for each.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/core/schedule/order/buckets.h"
#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

// BytePS cuts messages to servers into parts of this many bytes.
inline constexpr std::size_t kServerPart = 4096000;

struct PolicySettings {
  Path path = Path::all_to_all;
  std::size_t part_bytes = 0;  // 0: never cut
};

// BSP: one message when the backward pass is over.
Plan barrier(const Model& model, const PolicySettings& settings = {});

// WFBP: each tensor as soon as it is ready, in that order (Zhang et al., ATC 2017).
Plan wait_free(const Model& model, const PolicySettings& settings = {});

// DDP: neighbours share a bucket until the next one would lift it over its cap (Li et al., VLDB
// 2020; order/buckets.h, which also knows several types of gradients).
Plan buckets(const Model& model, const BucketCaps& caps = {});

enum class FusionRule : unsigned char { released, exact };
struct MergedSettings {
  FusionRule rule = FusionRule::exact;
  Path path = Path::all_to_all;
  std::size_t floor_bytes = 4 * 8192;  // `released`: smaller groups stay open
};
// MG-WFBP: neighbours share a message if its start-up costs more than waiting (Shi, Chu, Li,
// INFOCOM 2019). `exact` is the best plan of this kind; `released` repeats the authors' code.
Plan merged(const Model& model, const LinkCosts& links, const MergedSettings& settings = {});

struct PrioritySettings {
  Path path = Path::all_to_all;
  std::size_t part_bytes = 4000000;
  std::size_t window_bytes = 16000000;  // ByteScheduler's credit
  bool crosses_barrier = true;
};
// P3 and ByteScheduler: tensors are cut into parts, and the tensors that the next forward pass
// reads first overtake the rest (Jayarajan et al., MLSys 2019; Peng et al., SOSP 2019).
Plan priority(const Model& model, const PrioritySettings& settings = {});

// The survey's seven methods, with its names and settings: BSP-PS, BSP-A2A, WFBP-PS, WFBP-A2A,
// MG-WFBP, ByteScheduler-PS, ByteScheduler-A2A. Without servers, only the four that need none.
// `crosses_barrier` applies to ByteScheduler, as its paper describes it; the survey's scripts ran
// it with a barrier.
std::vector<Plan> survey_methods(const Model& model, const LinkCosts& links,
                                 bool crosses_barrier = true);

}  // namespace paceline::schedule
