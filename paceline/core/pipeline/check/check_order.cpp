#include "paceline/core/pipeline/check/check_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace paceline::pipeline {
namespace {

class Search {
 public:
  Search(const Order& order, const Walk& walk) : order_(order), walk_(walk) {}

  Blocked found() const {
    int rank = lowest_that_stands();
    std::vector<bool> seen(order_.ranks.size());
    while (true) {
      const auto next = rank_to_blame(rank);
      if (!next) return blocked(rank);
      seen[static_cast<std::size_t>(rank)] = true;
      rank = *next;
      if (seen[static_cast<std::size_t>(rank)]) return blocked(lowest_of_ring(rank));
    }
  }

 private:
  std::size_t position(int rank) const { return walk_.reached[static_cast<std::size_t>(rank)]; }
  const Operation& operation(int rank) const {
    return order_.ranks[static_cast<std::size_t>(rank)][position(rank)];
  }
  int lowest_that_stands() const {
    int rank = 0;
    while (position(rank) == order_.ranks[static_cast<std::size_t>(rank)].size()) ++rank;
    return rank;
  }

  // Why the operation is wrong where it stands; empty: it waits.
  std::string fault(int rank) const {
    const Operation& at = operation(rank);
    if (at.kind == Kind::weight && !order_.split_backward)
      return "the order's backwards are not split, so they compute the weight gradients";
    if (!walk_.ran.knows(at))
      return fmt::format("the order has stages 0 to {} and micro-batches 0 to {}",
                         order_.stages - 1, order_.micro_batches - 1);
    const int home = order_.placement().rank_of(at.stage, at.micro_batch);
    if (home != rank) return fmt::format("it belongs to rank {}", home);
    return walk_.ran.has(at) ? "it has run already" : "";
  }
  Operation missing_input(int rank) const {
    const auto inputs = inputs_of(operation(rank), order_.stages);
    return *std::ranges::find_if(inputs, [&](const Operation& i) { return !walk_.ran.has(i); });
  }
  bool stands_ahead(int rank, const Operation& wanted) const {
    const auto& own = order_.ranks[static_cast<std::size_t>(rank)];
    return std::find(own.begin() + static_cast<std::ptrdiff_t>(position(rank)), own.end(),
                     wanted) != own.end();
  }
  int home_of(const Operation& wanted) const {
    return order_.placement().rank_of(wanted.stage, wanted.micro_batch);
  }
  // The rank that stands still and that this one waits for; empty: it waits for none of them.
  std::optional<int> rank_to_blame(int rank) const {
    if (!fault(rank).empty()) return std::nullopt;
    const Operation wanted = missing_input(rank);
    if (home_of(wanted) == rank || !stands_ahead(home_of(wanted), wanted)) return std::nullopt;
    return home_of(wanted);
  }
  int lowest_of_ring(int rank) const {
    int lowest = rank;
    for (int other = *rank_to_blame(rank); other != rank; other = *rank_to_blame(other))
      lowest = std::min(lowest, other);
    return lowest;
  }

  Blocked blocked(int rank) const {
    Blocked one{.rank = rank, .position = position(rank), .operation = operation(rank), .what = {}};
    std::string why = fault(rank);
    if (why.empty()) {
      one.waits_for = missing_input(rank);
      const int home = home_of(*one.waits_for);
      why = fmt::format("it waits for {}, which ", text_of(*one.waits_for));
      if (!stands_ahead(home, *one.waits_for)) why += "no rank computes";
      else if (home == rank) why += "stands behind it";
      else
        why += fmt::format("rank {} computes only after {}, and that waits for this rank", home,
                           text_of(operation(home)));
    }
    one.what = fmt::format("rank {} cannot run {} (number {} of its list): {}", rank,
                           text_of(one.operation), one.position, why);
    return one;
  }

  const Order& order_;
  const Walk& walk_;
};

Failure wrong_order(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

}  // namespace

std::optional<Blocked> first_blocked(const Order& order) {
  const Walk result = walk(order, {});
  if (result.is_complete) return std::nullopt;
  return Search(order, result).found();
}

std::vector<int> peak_live(const Order& order) {
  const Kind last = order.split_backward ? Kind::weight : Kind::backward;
  std::vector<int> peaks;
  for (const auto& own : order.ranks) {
    int live = 0, peak = 0;
    for (const Operation& operation : own) {
      live += (operation.kind == Kind::forward ? 1 : 0) - (operation.kind == last ? 1 : 0);
      peak = std::max(peak, live);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

Result<> check_order(const Order& order) {
  const int ranks = static_cast<int>(order.ranks.size());
  if (ranks < 1 || order.stages < 1 || order.micro_batches < 1)
    return wrong_order("an order has at least one rank, one stage and one micro-batch");
  if (order.replicas.empty() && order.stages % ranks != 0) {
    return wrong_order(
        fmt::format("{} stages cannot be dealt evenly to {} ranks: give a multiple of {} stages",
                    order.stages, ranks, ranks));
  }
  if (const auto blocked = first_blocked(order)) return wrong_order(blocked->what);
  const Ran ran = walk(order, {}).ran;
  for (const Kind kind : {Kind::forward, Kind::backward, Kind::weight}) {
    for (int stage = 0; stage < order.stages; ++stage) {
      for (int i = 0; i < order.micro_batches; ++i) {
        const Operation one{kind, stage, i};
        if (ran.knows(one) && !ran.has(one))
          return wrong_order(fmt::format("no rank computes {}", text_of(one)));
      }
    }
  }
  return Done{};
}

Ran::Ran(const Order& order)
    : stages_(order.stages),
      micro_batches_(order.micro_batches),
      kinds_(order.split_backward ? 3 : 2),
      ran_(static_cast<std::size_t>(kinds_) * static_cast<std::size_t>(stages_) *
           static_cast<std::size_t>(micro_batches_)) {}

bool Ran::knows(const Operation& operation) const {
  const auto [kind, stage, micro_batch] = operation;
  return static_cast<int>(kind) < kinds_ && stage >= 0 && stage < stages_ && micro_batch >= 0 &&
         micro_batch < micro_batches_;
}

std::size_t Ran::place_of(const Operation& operation) const {
  const auto kind = static_cast<std::size_t>(operation.kind);
  const auto stage = static_cast<std::size_t>(operation.stage);
  return (kind * static_cast<std::size_t>(stages_) + stage) *
             static_cast<std::size_t>(micro_batches_) +
         static_cast<std::size_t>(operation.micro_batch);
}

bool belongs(const Order& order, int rank, const Operation& operation) {
  return order.placement().rank_of(operation.stage, operation.micro_batch) == rank;
}

Walk walk(const Order& order,
          const std::function<void(int rank, std::size_t position, const Operation&)>& ran) {
  Walk walk{Ran(order), std::vector<std::size_t>(order.ranks.size(), 0)};
  const Placement placement = order.placement();
  const auto can_run = [&](int rank, const Operation& operation) {
    if (!walk.ran.knows(operation) || walk.ran.has(operation)) return false;
    if (placement.rank_of(operation.stage, operation.micro_batch) != rank) return false;
    return std::ranges::all_of(inputs_of(operation, order.stages),
                               [&](const Operation& input) { return walk.ran.has(input); });
  };
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
      const auto& own = order.ranks[rank];
      std::size_t& at = walk.reached[rank];
      for (; at < own.size() && can_run(static_cast<int>(rank), own[at]); ++at) {
        walk.ran.add(own[at]);
        if (ran) ran(static_cast<int>(rank), at, own[at]);
        has_moved = true;
      }
    }
  }
  walk.is_complete = true;
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank)
    walk.is_complete = walk.is_complete && walk.reached[rank] == order.ranks[rank].size();
  return walk;
}

}  // namespace paceline::pipeline
