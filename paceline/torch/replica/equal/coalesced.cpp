#include "paceline/torch/replica/equal/coalesced.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::replica {

CoalescedTensors::CoalescedTensors(std::vector<at::Tensor> tensors, const Communicator& group)
    : tensors_(std::move(tensors)) {
  if (!tensors_.empty()) memory_ = group.allocate(packed_bytes(tensors_));
}

void CoalescedTensors::broadcast(Communicator& group, int root) {
  if (tensors_.empty() || group.size() == 1) return;
  const MutableBytes bytes = memory_.bytes();
  if (group.rank() == root) pack(tensors_, bytes);
  group.broadcast({bytes.data(), bytes.size(), Dtype::u8}, root).wait();
  if (group.rank() != root) unpack(bytes, tensors_);
}

void broadcast_all(const std::vector<at::Tensor>& tensors, Communicator& group, int root) {
  constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  std::vector<at::Tensor> some;
  std::size_t bytes = 0;
  const auto send = [&] {
    CoalescedTensors(std::exchange(some, {}), group).broadcast(group, root);
    bytes = 0;
  };
  for (const at::Tensor& tensor : tensors) {
    if (bytes + tensor.nbytes() > kMostBytes && !some.empty()) send();
    some.push_back(tensor);
    bytes += tensor.nbytes();
  }
  if (!some.empty()) send();
}

void CoalescedTensors::average(Communicator& group, double share, int root) {
  if (tensors_.empty() || group.size() == 1) return;
  if (!others_) {
    std::vector<at::Tensor> singles, doubles, others;
    for (const at::Tensor& tensor : tensors_) {
      auto& kind = tensor.scalar_type() == at::kFloat    ? singles
                   : tensor.scalar_type() == at::kDouble ? doubles
                                                         : others;
      kind.push_back(tensor);
    }
    singles_ = std::make_unique<CoalescedTensors>(std::move(singles), group);
    doubles_ = std::make_unique<CoalescedTensors>(std::move(doubles), group);
    others_ = std::make_unique<CoalescedTensors>(std::move(others), group);
  }
  for (CoalescedTensors* kind : {singles_.get(), doubles_.get()}) {
    if (kind->empty()) continue;
    const MutableBytes bytes = kind->memory_.bytes();
    const Dtype dtype = kind == singles_.get() ? Dtype::f32 : Dtype::f64;
    // A shadow's tensors may hold anything, NaN too.
    if (share > 0) pack(kind->tensors_, bytes);
    else std::fill(bytes.begin(), bytes.end(), std::byte{0});
    if (share > 0 && share != 1) scale(dtype, bytes, share);
    group
        .all_reduce({bytes.data(), bytes.size() / size_of(dtype), dtype}, {.op = ReduceOp::average})
        .wait();
    unpack(bytes, kind->tensors_);
  }
  others_->broadcast(group, root);
}

}  // namespace paceline::replica
