// Runs an order in virtual time: when each operation begins and ends, and how long ranks wait.
#pragma once

#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/pipeline/order/order.h"
#include "paceline/core/pipeline/order/schedule_catalogue.h"

namespace paceline::pipeline {

// Times in seconds. Between two ranks, one message after the other travels in each direction: it
// holds the way for bytes / bytes_per_second, and arrives `latency` after it was sent off.
struct PipelineCosts {
  std::vector<StageSeconds> stages;
  double latency = 0;
  double bytes_per_second = 0;         // 0: the bytes take no time
  std::vector<double> cut_bytes = {};  // of a micro-batch from stage s to s + 1, and of its
                                       // gradient; empty: none
};
// The costs of ranks that take equal times; `rank`: of all chunks of one.
PipelineCosts equal_costs(const Order& order, const StageSeconds& rank);

struct OperationTime {
  Operation operation;
  double begin = 0, end = 0;  // seconds
  bool operator==(const OperationTime&) const = default;
};

// An order and the times of its operations.
struct TimedOrder {
  double makespan = 0;                            // seconds
  double idle_share = 0;                          // of all ranks' time, until the last one ends
  std::vector<double> busy;                       // by rank: seconds
  std::vector<std::vector<OperationTime>> ranks;  // in the order of their lists
};
// A failure (misuse): check_order's, or costs for another number of stages.
Result<TimedOrder> simulate_order(const Order& order, const PipelineCosts& costs);

}  // namespace paceline::pipeline
