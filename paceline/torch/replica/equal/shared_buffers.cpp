#include "paceline/torch/replica/equal/shared_buffers.h"

#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::replica {

SharedBuffers::SharedBuffers(const std::vector<at::Tensor>& buffers, const Communicator& group)
    : all_(buffers) {
  std::vector<at::Tensor> short_ones;
  for (const at::Tensor& buffer : buffers) {
    if (buffer.nbytes() < kLongBytes) {
      short_ones.push_back(buffer);
      continue;
    }
    see(long_ones_.emplace_back(Long{buffer}));
  }
  short_ones_ = std::make_unique<CoalescedTensors>(std::move(short_ones), group);
}

void SharedBuffers::see(Long& one) {
  one.version = one.tensor._version();
  one.fingerprint = fingerprint_of(one.tensor);
  one.is_known = true;
}

// libtorch's own kernels write to running statistics past the version, so equal versions say
// nothing: then the elements are read, which takes a fraction of the time that they would travel.
bool SharedBuffers::has_changed(const Long& one) {
  return !one.is_known || one.tensor._version() != one.version ||
         fingerprint_of(one.tensor) != one.fingerprint;
}

void SharedBuffers::broadcast(Communicator& group, int root) {
  short_ones_->broadcast(group, root);
  if (long_ones_.empty()) return;
  std::vector<std::uint8_t> changed;
  for (const Long& one : long_ones_) changed.push_back(has_changed(one) ? 1 : 0);
  group.all_reduce(buffer_of(changed), {.op = ReduceOp::max}).wait();
  std::vector<at::Tensor> travelling;
  for (std::size_t i = 0; i < long_ones_.size(); ++i)
    if (changed[i] != 0) travelling.push_back(long_ones_[i].tensor);
  broadcast_all(travelling, group, root);
  // One that changes in each step is not read for nothing: only now and then is it seen whether it
  // has come to rest.
  constexpr int kOften = 3, kSeldom = 16;
  for (std::size_t i = 0; i < long_ones_.size(); ++i) {
    Long& one = long_ones_[i];
    one.changes = changed[i] != 0 ? one.changes + 1 : 0;
    if (changed[i] == 0) continue;
    if (one.changes < kOften || one.changes % kSeldom == 0) see(one);
    else one.is_known = false;
  }
}

void SharedBuffers::average(Communicator& group, double share, int root) {
  if (averaged_ == nullptr) averaged_ = std::make_unique<CoalescedTensors>(all_, group);
  averaged_->average(group, share, root);
}

}  // namespace paceline::replica
