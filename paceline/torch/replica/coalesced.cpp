#include "paceline/torch/replica/coalesced.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::parallel {

CoalescedTensors::CoalescedTensors(std::vector<at::Tensor> tensors, Job* job)
    : tensors_(std::move(tensors)), memory_(job, packed_bytes(tensors_)), job_(job) {}

void CoalescedTensors::broadcast(Communicator& group, int root) {
  if (tensors_.empty() || group.size() == 1) return;
  const MutableBytes bytes = memory_.bytes();
  if (group.rank() == root) pack(tensors_, bytes);
  group.broadcast({bytes.data(), bytes.size(), Dtype::u8}, root).wait();
  if (group.rank() != root) unpack(bytes, tensors_);
}

void CoalescedTensors::average(Communicator& group, double weight, int root) {
  if (tensors_.empty() || group.size() == 1) return;
  if (!others_) {
    std::vector<at::Tensor> singles, doubles, others;
    for (const at::Tensor& tensor : tensors_) {
      auto& kind = tensor.scalar_type() == at::kFloat    ? singles
                   : tensor.scalar_type() == at::kDouble ? doubles
                                                         : others;
      kind.push_back(tensor);
    }
    singles_ = std::make_unique<CoalescedTensors>(std::move(singles), job_);
    doubles_ = std::make_unique<CoalescedTensors>(std::move(doubles), job_);
    others_ = std::make_unique<CoalescedTensors>(std::move(others), job_);
  }
  for (CoalescedTensors* kind : {singles_.get(), doubles_.get()}) {
    if (kind->empty()) continue;
    const MutableBytes bytes = kind->memory_.bytes();
    if (weight > 0) pack(kind->tensors_, bytes);
    else
      std::fill(bytes.begin(), bytes.end(),
                std::byte{0});  // what a shadow holds may be anything, NaN too
    const Dtype dtype = kind == singles_.get() ? Dtype::f32 : Dtype::f64;
    group
        .all_reduce({bytes.data(), bytes.size() / size_of(dtype), dtype},
                    {.op = ReduceOp::average, .weight = weight})
        .wait();
    unpack(bytes, kind->tensors_);
  }
  others_->broadcast(group, root);
}

}  // namespace paceline::parallel
