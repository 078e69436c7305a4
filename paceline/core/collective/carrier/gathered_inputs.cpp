#include "paceline/core/collective/carrier/gathered_inputs.h"

#include <algorithm>

#include "paceline/core/collective/carrier/tree_sum.h"

namespace paceline::collective {

std::size_t GatheredInputs::longest_input(FingerprintBarrier::Form form, int ranks, bool on_a_host) {
  const bool by_tree = form == FingerprintBarrier::Form::tree;
  const std::size_t most = !on_a_host ? kMostOverLinks
                           : by_tree  ? kMostOnAHostByTree
                                      : kMostOnAHost;
  return std::min(kLongestInput, most / static_cast<std::size_t>(std::max(ranks - 1, 1)));
}

GatheredInputs::GatheredInputs(FingerprintBarrier::Form form, int rank, int ranks, const Request& request)
    : form_(form),
      rank_(rank),
      ranks_(ranks),
      op_(request.call.op),
      input_(request.input),
      output_(request.output),
      each_(request.input.size_bytes()),
      inputs_(each_ * static_cast<std::size_t>(ranks)) {
  std::ranges::copy(input_.bytes(), inputs_.begin());
}

Bytes GatheredInputs::told_in(const FingerprintBarrier::Frame& frame) {
  if (frame.of_ranks > 0)
    return Bytes(inputs_).first(each_ * static_cast<std::size_t>(frame.of_ranks));
  finish();
  return output_.bytes();
}

bool GatheredInputs::put(const FingerprintBarrier::Frame& frame, Bytes payload) {
  const bool is_sum = frame.of_ranks == 0;
  const auto inputs = static_cast<std::size_t>(is_sum ? 1 : frame.of_ranks);
  if (payload.size() != each_ * inputs) return false;
  const std::size_t place = each_ * static_cast<std::size_t>(frame.distance);
  std::ranges::copy(
      payload, is_sum ? output_.bytes().begin() : MutableBytes(inputs_).subspan(place).begin());
  is_finished_ = is_finished_ || is_sum;
  return true;
}

std::size_t GatheredInputs::place_of(int rank) const {
  const int distance = form_ == FingerprintBarrier::Form::tree ? rank - rank_ : rank_ - rank;
  return each_ * static_cast<std::size_t>((distance + ranks_) % ranks_);
}

void GatheredInputs::finish() {
  if (std::exchange(is_finished_, true)) return;
  std::vector<ConstBuffer> by_rank;
  for (int rank = 0; rank < ranks_; ++rank)
    by_rank.push_back({inputs_.data() + place_of(rank), input_.count, input_.dtype});
  TreeSum sum(ranks_, each_);
  sum(op_, by_rank, output_, op_ == ReduceOp::average ? 1.0 / ranks_ : 1.0);
  bytes_reduced_ = each_ * static_cast<std::size_t>(ranks_ - 1);
}

}  // namespace paceline::collective
