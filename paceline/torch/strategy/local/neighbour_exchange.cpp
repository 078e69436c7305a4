#include "paceline/torch/strategy/local/neighbour_exchange.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::strategy {

NeighbourExchange::NeighbourExchange(const LocalReplica& replica, collective::MixingGraph graph,
                                     std::int64_t elements)
    : group_(replica.group.split(0)) {
  const int ranks = group_->size();
  graph.check(ranks).value();
  std::size_t most = 0;
  for (int round = 0; round < graph.rounds(ranks); ++round) {
    rows_.push_back(graph.row(ranks, round, group_->rank()));
    most = std::max(most, rows_.back().from.size());
  }
  for (std::size_t i = 0; i < most; ++i) received_.push_back(replica.model.make_vector(elements));
}

NeighbourExchange::~NeighbourExchange() {
  try {
    wait();
  } catch (const std::exception&) {  // what ended the communication was told, or will be
  }
}

void NeighbourExchange::start(const at::Tensor& vector, std::int64_t round) {
  row_ = &row_of(round);
  sent_ = vector;
  std::vector<Work> parts;
  for (std::size_t i = 0; i < row_->from.size(); ++i)
    parts.push_back(group_->recv(buffer_of(received_[i]), row_->from[i].peer));
  for (const int peer : row_->to) parts.push_back(group_->send(buffer_of(sent_), peer));
  work_ = Work::all_of(std::move(parts));
  is_under_way_ = true;
}

void NeighbourExchange::wait() {
  if (!std::exchange(is_under_way_, false)) return;
  work_.wait();
}

void NeighbourExchange::mix(const at::Tensor& vector, const at::Tensor& into) const {
  mix(row_->own, vector, into);
}

void NeighbourExchange::mix_change(const at::Tensor& vector, const at::Tensor& into) const {
  mix(row_->own - 1, vector, into);
}

void NeighbourExchange::mix(double own, const at::Tensor& vector, const at::Tensor& into) const {
  at::mul_out(const_cast<at::Tensor&>(into), vector, at::scalar_tensor(own, at::kDouble));
  for (std::size_t i = 0; i < row_->from.size(); ++i) into.add_(received_[i], row_->from[i].weight);
}

}  // namespace paceline::strategy
