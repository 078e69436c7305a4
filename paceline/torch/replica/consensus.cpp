#include "paceline/torch/replica/consensus.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::replica {

Consensus::Consensus(Replicas& replicas) : replicas_(&replicas) {
  replicas.finish();
  replicas.require_between_steps("consensus");
  if (replicas.consensus_ != nullptr)
    throw_misuse("DataParallel::consensus() is in force already: end its guard first");
  if (replicas.synchrony().may_differ()) {
    const at::NoGradGuard no_grad;
    tensors_ = replicas.parts().all();
    for (const at::Tensor& tensor : tensors_) own_values_.push_back(tensor.detach().clone());
  }
  replicas.synchrony().write_consensus();
  gathered_ = replicas.gathered_.lock();
  if (gathered_ == nullptr) gathered_ = replicas.hold_gathered();
  replicas.consensus_ = this;
}

void Consensus::end() {
  if (replicas_ == nullptr) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(own_values_[i]);
  if (!tensors_.empty()) replicas_->writes_->note();
  gathered_.reset();
  std::exchange(replicas_, nullptr)->consensus_ = nullptr;
}

}  // namespace paceline::replica
