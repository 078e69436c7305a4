// The policies of the gradient path: each makes a plan of a model. docs/schedules/ has a page for
// each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "paceline/core/schedule/order/buckets.h"
#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/schedule/order/model.h"
#include "paceline/core/schedule/simulation/simulate.h"

namespace paceline::schedule {

// BytePS cuts messages to servers into parts of this many bytes.
inline constexpr std::size_t kServerPart = 4096000;

struct PolicySettings {
  Path path = Path::all_to_all;
  std::size_t part_bytes = 0;  // 0: never cut
};

// BSP: one message when the backward pass is over.
MessagePlan barrier(const Model& model, const PolicySettings& settings = {});

// WFBP: each tensor as soon as it is ready, in that order (Zhang et al., ATC 2017).
MessagePlan wait_free(const Model& model, const PolicySettings& settings = {});

// DDP: neighbours share a bucket until the next one would lift it over its cap (Li et al., VLDB
// 2020; order/buckets.h, which also knows several types of gradients).
MessagePlan buckets(const Model& model, const BucketCaps& caps = {});

enum class FusionRule : unsigned char { released, exact };
struct MergedSettings {
  FusionRule rule = FusionRule::exact;
  Path path = Path::all_to_all;
  std::size_t floor_bytes = 4 * 8192;  // `released`: smaller groups stay open
};
// MG-WFBP: neighbours share a message if its start-up costs more than waiting (Shi, Chu, Li,
// INFOCOM 2019). `exact` is the best plan of this kind; `released` repeats the authors' code.
MessagePlan merged(const Model& model, const LinkCosts& links, const MergedSettings& settings = {});

struct PrioritySettings {
  Path path = Path::all_to_all;
  std::size_t part_bytes = 4000000;
  std::size_t window_bytes = 16000000;  // ByteScheduler's credit
  bool crosses_barrier = true;
};
// P3 and ByteScheduler: tensors are cut into parts, and the tensors that the next forward pass
// reads first overtake the rest (Jayarajan et al., MLSys 2019; Peng et al., SOSP 2019).
MessagePlan priority(const Model& model, const PrioritySettings& settings = {});

struct GeneralSettings {
  Conditions conditions = {};
  std::optional<Path> only = {};  // restricts plans to this path
  bool crosses_barrier = true;    // else only plans with a barrier
  int most_simulations = 500;     // of the local search; the starting plans come in addition
  std::uint64_t seed = 1;
};

struct GeneralPlan {
  MessagePlan plan;  // called "general"
  double seconds = 0;
  std::string start;         // the starting plan that the search improved, "MG-WFBP" or "prio"
  double start_seconds = 0;  // its seconds: no starting plan is faster
  int simulations = 0;
};

// Takes the fastest starting plan, then improves it by a local search: merge, split and shift
// groups, change codec, path, priority, parts and window. Every codec of `costs` may be used. Equal
// arguments give equal plans. COST: some tenths of a second for BERT-Large.
GeneralPlan general(const Model& model, const Costs& costs, const GeneralSettings& settings = {});

}  // namespace paceline::schedule
