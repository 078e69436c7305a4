// Turns autograd's work on one parameter's gradient into two events.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

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
  // allocation becomes the gradient (gradient_placement.h) and the parameter has no grad. Without
  // it, or when it returns null, libtorch chooses.
  std::function<std::shared_ptr<void>()> birthplace = {};
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
  void* birth_ = nullptr;
  std::uintptr_t after_ = 0;
};

// Inside an event, these tell which backward() this is (each call has another number), and whether
// it was asked to build a graph of its own (create_graph).
int current_backward();
// Whether it runs within another one, as when a function recomputes its activations in its
// backward. Its number is above that of the one around it.
bool is_nested_backward();
bool backward_builds_graph();

}  // namespace paceline
