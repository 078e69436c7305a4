#include "paceline/core/collective/agreement/call_record.h"

#include <algorithm>

#include "paceline/core/base/half.h"

namespace paceline::collective {

void CallRecord::enter(int rank, Call call) {
  calls_[static_cast<std::size_t>(rank)] = std::move(call);
  --missing_;
}

void CallRecord::enter_all_like(const Call& own, std::span<const double> weights) {
  Call same{.operation = own.operation,
            .op = own.op,
            .dtype = own.dtype,
            .weighted = own.weighted,
            .root = own.root,
            .count = own.count};
  for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
    if (rank < weights.size()) same.weight = weights[rank];
    if (!calls_[rank]) calls_[rank] = same;
  }
  missing_ = 0;
}

std::vector<int> CallRecord::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
    if (!calls_[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

bool CallRecord::has_one_without_offer() const {
  return std::ranges::any_of(calls_, [](const auto& call) { return call && !call->offer; });
}

bool CallRecord::weigh_the_same() const {
  const Call& first = *calls_[0];
  return !first.weighted ||
         (first.weight != 0 && std::ranges::all_of(calls_, [&](const auto& call) {
            return call->weight == first.weight;
          }));
}

double CallRecord::total_weight() const {
  double total = 0;
  for (const auto& call : calls_) total += call->weighted ? call->weight : 1;
  return total;
}

double CallRecord::input_factor(int rank) const {
  const Call& call = *call_of(rank);
  if (!is_half(call.dtype)) return call.weight;
  const double total = total_weight();
  return total == 0 ? 0 : call.weight / total;
}

double CallRecord::sum_factor() const {
  if (weigh_the_same()) return 1.0 / static_cast<double>(calls_.size());
  const double total = is_half(calls_[0]->dtype) ? 1 : total_weight();
  return total == 0 ? 1.0 : 1.0 / total;
}

}  // namespace paceline::collective
