// Turns autograd's work on one parameter's gradient into two events.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace paceline {

// Both run on the thread that runs the backward pass: on CPU the one that called backward(). An
// exception that they throw ends the backward pass and comes out of backward(). A parameter that
// appears in a graph several times fires once, after the last use.
struct GradientEvents {
  // A gradient is about to be added to the parameter's grad. False drops it: grad stays as it is,
  // and `accumulated` does not run.
  std::function<bool()> arriving;
  // grad now holds the sum of what it held before and the new gradient. `held_elsewhere`: code
  // other than the parameter and autograd itself holds its memory too, such as a hook that keeps
  // the gradients it sees.
  std::function<void(bool held_elsewhere)> accumulated;
  // Gives the memory that the gradient shall lie in: it has the parameter's size, and the tensor
  // shares its ownership. It is called before the gradient is computed, if it is known which
  // allocation becomes the gradient (gradient_hook.h) and the parameter has no grad. Without
  // it, or when it returns null, libtorch chooses.
  std::function<std::shared_ptr<void>()> gradient_memory = {};
  // Tells the factor of the gradient before it is added; called after `arriving`. Without it: 1.
  std::function<double()> factor = {};
};

// Watches one leaf that requires a gradient; stops in its destructor. Move-only.
//
// The hooks sit on the parameter's AccumulateGrad node, which libtorch keeps alive only while a
// graph needs it: holding the node is what makes the hooks last from one forward pass to the next.
class GradientHook {
 public:
  GradientHook(const at::Tensor& leaf, GradientEvents events);
  GradientHook(GradientHook&&) noexcept = default;
  GradientHook& operator=(GradientHook&&) = delete;
  ~GradientHook();

  // Whether gradients of the leaf still come by here. Not once its type has changed, or
  // set_data() gave it other memory, as loading does: then autograd has another node for it.
  bool is_in_force(const at::Tensor& leaf) const;

 private:
  std::shared_ptr<torch::autograd::Node> accumulator_;
  std::shared_ptr<const GradientEvents> events_;
  void* before_ = nullptr;
  void* placement_ = nullptr;
  std::uintptr_t after_ = 0;
};

// Inside an event, these tell which backward() this is (each call has another number), and whether
// it was asked to build a graph of its own (create_graph).
int current_backward();
// Whether it runs within another one, as when a function recomputes its activations in its
// backward. Its number is above that of the one around it.
bool is_nested_backward();
bool backward_builds_graph();

// Chooses the memory that libtorch computes a gradient into.
//
// libtorch has no way to say where a gradient shall lie, so this chooses at the one place that all
// tensors come through, the CPU allocator (c10::SetAllocator; the replacement is process-wide,
// forwards everything else, and stays until the process ends). An allocation may become the
// gradient when it is as long as the gradient and is made while autograd runs a node whose result
// goes to the parameter's AccumulateGrad. One backward pass shows which of these allocations it
// was; that choice holds until another pass shows another one. A wrong guess costs a copy, which
// the owner of the memory has to make (GradientBuckets::take).
//
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
