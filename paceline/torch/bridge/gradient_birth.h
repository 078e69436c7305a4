// Where a gradient is born: the memory that libtorch computes it into.
//
// libtorch has no way to say where a gradient shall lie, so this chooses at the one place that all
// tensors come through, the CPU allocator (c10::SetAllocator; the replacement is process-wide,
// forwards everything else, and stays to the end). What is allocated while autograd runs a node
// whose result goes to the parameter's AccumulateGrad, and is as long as the gradient, may become
// it. Which of these allocations it was is learnt in one backward pass and holds until another pass
// shows another one; a wrong guess costs a copy, which the owner of the memory has to make
// (GradientBuckets::take).
#pragma once

#include <torch/csrc/autograd/function_hook.h>

#include <functional>
#include <memory>
#include <vector>

#include "paceline/torch/bridge/gradient_hook.h"

namespace paceline {

// A hook that changes nothing: it sits on the parameter's AccumulateGrad node for the allocator to
// find. THREAD: the one that runs the backward pass.
class GradientBirth final : public torch::autograd::FunctionPreHook {
 public:
  GradientBirth(at::Tensor leaf, std::function<std::shared_ptr<void>()> place);
  ~GradientBirth() override;
  GradientBirth(const GradientBirth&) = delete;
  GradientBirth& operator=(const GradientBirth&) = delete;

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    return gradients;
  }

  // Whether an allocation of `bytes` may become the gradient: not where the leaf has one already,
  // which is added to.
  bool may_become(std::size_t bytes) const;
  // Memory for the allocation at hand; null: libtorch's own.
  std::shared_ptr<void> place();
  void allocated(const void* address);
  // The gradient came to lie there.
  void became(const void* address);

 private:
  const at::Tensor leaf_;
  const std::function<std::shared_ptr<void>()> place_;
  int backward_ = -1;
  std::vector<const void*> candidates_;  // of this backward pass, in the order of their allocations
  int chosen_ = -1;                      // the place in that order; -1: not known
};

}  // namespace paceline
