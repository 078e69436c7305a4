#include "paceline/core/collective/carrier/gathered_inputs.h"

#include <algorithm>
#include <utility>

#include "paceline/core/collective/carrier/tree_sum.h"

namespace paceline::collective {

std::size_t GatheredInputs::longest_input(FingerprintBarrier::Form form, int ranks,
                                          bool on_a_host) {
  const bool by_tree = form == FingerprintBarrier::Form::tree;
  const std::size_t most = !on_a_host ? kMostOverLinks
                           : by_tree  ? kMostOnAHostByTree
                                      : kMostOnAHost;
  return std::min(kLongestInput, most / static_cast<std::size_t>(std::max(ranks - 1, 1)));
}

GatheredInputs::GatheredInputs(FingerprintBarrier::Form form, int rank, int ranks,
                               const Request& request, Traffic& traffic)
    : ranks_(ranks),
      op_(request.call.op),
      input_(request.input),
      output_(request.output),
      traffic_(traffic),
      blocks_(form, rank, ranks, input_.bytes()) {}

Bytes GatheredInputs::told_in(const FingerprintBarrier::Frame& frame) {
  if (frame.of_ranks > 0) return blocks_.told_in(frame);
  finish();
  return output_.bytes();
}

bool GatheredInputs::put(const FingerprintBarrier::Frame& frame, Bytes payload) {
  if (frame.of_ranks > 0) return blocks_.put(frame, payload);
  if (payload.size() != blocks_.each()) return false;
  std::ranges::copy(payload, output_.bytes().begin());
  is_finished_ = true;
  return true;
}

void GatheredInputs::finish() {
  if (std::exchange(is_finished_, true)) return;
  std::vector<ConstBuffer> by_rank;
  for (int rank = 0; rank < ranks_; ++rank)
    by_rank.push_back({blocks_.of(rank).data(), input_.count, input_.dtype});
  TreeSum sum(ranks_, blocks_.each());
  sum(op_, by_rank, output_, op_ == ReduceOp::average ? 1.0 / ranks_ : 1.0);
  traffic_.bytes_reduced += blocks_.each() * static_cast<std::size_t>(ranks_ - 1);
}

}  // namespace paceline::collective
