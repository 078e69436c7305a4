#include "paceline/core/pipeline/check/simulate_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "paceline/core/pipeline/check/check_order.h"

namespace paceline::pipeline {
namespace {

class VirtualTime {
 public:
  VirtualTime(const Order& order, const PipelineCosts& costs)
      : order_(order),
        costs_(costs),
        placement_(order.placement()),
        places_(order),
        arrivals_(places_.size(), 0),
        clocks_(order.ranks.size(), 0) {
    simulated_.ranks.resize(order.ranks.size());
    simulated_.busy.resize(order.ranks.size(), 0);
  }

  TimedOrder run() {
    walk(order_, [this](int rank, std::size_t, const Operation& operation) {
      compute(static_cast<std::size_t>(rank), operation);
    });
    simulated_.makespan = std::ranges::max(clocks_);
    const double all = simulated_.makespan * static_cast<double>(clocks_.size());
    const double busy = std::accumulate(simulated_.busy.begin(), simulated_.busy.end(), 0.0);
    simulated_.idle_share = all > 0 ? 1 - busy / all : 0;
    return std::move(simulated_);
  }

 private:
  double seconds_of(const Operation& operation) const {
    const StageSeconds& stage = costs_.stages[static_cast<std::size_t>(operation.stage)];
    if (operation.kind == Kind::forward) return stage.forward;
    if (operation.kind == Kind::weight) return stage.weight;
    return order_.split_backward ? stage.backward : stage.backward + stage.weight;
  }

  void compute(std::size_t rank, const Operation& operation) {
    double begin = clocks_[rank];
    if (predecessor_of(operation, order_.stages))
      begin = std::max(begin, arrivals_[places_.place_of(operation)]);
    const double seconds = seconds_of(operation), end = begin + seconds;
    clocks_[rank] = end;
    simulated_.busy[rank] += seconds;
    simulated_.ranks[rank].push_back({operation, begin, end});
    if (const auto next = successor_of(operation, order_.stages))
      arrivals_[places_.place_of(*next)] = arrival(static_cast<int>(rank), operation, *next, end);
  }

  double arrival(int rank, const Operation& from, const Operation& to, double ready) {
    const int peer = placement_.rank_of(to.stage, to.micro_batch);
    if (peer == rank) return ready;
    double sending = 0;
    if (costs_.bytes_per_second > 0 && !costs_.cut_bytes.empty()) {
      const auto cut = static_cast<std::size_t>(std::min(from.stage, to.stage));
      sending = costs_.cut_bytes[cut] / costs_.bytes_per_second;
    }
    double& free = way_is_free_[{rank, peer}];
    free = std::max(free, ready) + sending;
    return free + costs_.latency;
  }

  const Order& order_;
  const PipelineCosts& costs_;
  const Placement placement_;
  const Ran places_;
  std::vector<double> arrivals_;  // by operation: when its input from another stage is there
  std::vector<double> clocks_;
  std::map<std::pair<int, int>, double> way_is_free_;
  TimedOrder simulated_;
};

}  // namespace

PipelineCosts equal_costs(const Order& order, const StageSeconds& rank) {
  const double chunks = order.placement().chunks();
  const StageSeconds stage{rank.forward / chunks, rank.backward / chunks, rank.weight / chunks};
  return {.stages = std::vector<StageSeconds>(static_cast<std::size_t>(order.stages), stage)};
}

Result<TimedOrder> simulate_order(const Order& order, const PipelineCosts& costs) {
  if (auto checked = check_order(order); !checked) return checked.error();
  const auto stages = static_cast<std::size_t>(order.stages);
  if (costs.stages.size() != stages) {
    return Failure{Fault::misuse,
                   fmt::format("the order has {} stages, and there are times for {}: give one for "
                               "each stage",
                               stages, costs.stages.size()),
                   {}};
  }
  if (!costs.cut_bytes.empty() && costs.cut_bytes.size() + 1 != stages) {
    return Failure{Fault::misuse,
                   fmt::format("the order has {} cuts, and there are bytes for {}: give one for "
                               "each cut",
                               stages - 1, costs.cut_bytes.size()),
                   {}};
  }
  return VirtualTime(order, costs).run();
}

}  // namespace paceline::pipeline
