#include "paceline/torch/strategy/local/local_replica.h"

#include <torch/torch.h>

#include <cmath>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::strategy {

void LocalReplica::average(const at::Tensor& vector) {
  const double share = ledger.share();
  if (alone()) return;
  // A replica without samples may hold anything, NaN too.
  if (share == 0) vector.zero_();
  else if (share != 1) vector.mul_(share);
  average_plainly(vector);
}

void LocalReplica::average_plainly(const at::Tensor& vector) {
  if (alone()) return;
  group.all_reduce(buffer_of(vector), {.op = ReduceOp::average}).wait();
}

double LocalReplica::distance(double square) {
  return std::sqrt(group.all_reduce(square) / group.size());
}

bool LocalReplica::any(bool on_this_rank) {
  return group.all_reduce(on_this_rank ? 1.0 : 0.0) > 0;
}

void LocalReplica::take_mean() {
  if (!ledger.is_empty()) {
    const at::Tensor mean = model.make_vector();
    model.read(mean);
    average(mean);
    model.write(mean);
  }
  take_counts();
}

void LocalReplica::take_plain_mean() {
  const at::Tensor mean = model.make_vector();
  model.read(mean);
  average_plainly(mean);
  model.write(mean);
  take_counts();
}

void LocalReplica::take_counts() {
  if (!alone() && !model.other_buffers().empty())
    broadcast_parameters(model.other_buffers(), group, 0);
}

}  // namespace paceline::strategy
