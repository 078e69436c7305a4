// Chooses the memory that libtorch computes a gradient into.
//
// libtorch has no way to say where a gradient shall lie, so this chooses at the one place that all
// tensors come through, the CPU allocator (c10::SetAllocator; the replacement is process-wide,
// forwards everything else, and stays until the process ends). An allocation may become the
// gradient when it is as long as the gradient and is made while autograd runs a node whose result
// goes to the parameter's AccumulateGrad. One backward pass shows which of these allocations it
// was; that choice holds until another pass shows another one. A wrong guess costs a copy, which
// the owner of the memory has to make (GradientBuckets::take).
#pragma once

#include <torch/csrc/autograd/function_hook.h>

#include <functional>
#include <memory>
#include <vector>

#include "paceline/torch/bridge/gradient_hook.h"

namespace paceline {

// A hook that changes nothing: it sits on the parameter's AccumulateGrad node, where the allocator
// finds it. THREAD: the one that runs the backward pass.
class GradientPlacement final : public torch::autograd::FunctionPreHook {
 public:
  GradientPlacement(at::Tensor leaf, std::function<std::shared_ptr<void>()> place);
  ~GradientPlacement() override;
  GradientPlacement(const GradientPlacement&) = delete;
  GradientPlacement& operator=(const GradientPlacement&) = delete;

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    return gradients;
  }

  // Whether an allocation of `bytes` may become the gradient. It cannot when the leaf has a
  // gradient already, because autograd adds to that one.
  bool may_become(std::size_t bytes) const;
  // Memory for the current allocation; null: libtorch allocates.
  std::shared_ptr<void> place();
  void allocated(const void* address);
  // Says that the gradient lies at `address`.
  void became(const void* address);

 private:
  const at::Tensor leaf_;
  const std::function<std::shared_ptr<void>()> place_;
  int backward_ = -1;
  std::vector<const void*> candidates_;  // this pass's, in the order of allocation
  int chosen_ = -1;                      // the place in that order; -1: not known
};

}  // namespace paceline
