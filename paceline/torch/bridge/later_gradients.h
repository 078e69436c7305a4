// LaterGradients: a backward pass that leaves the gradients of some layers' parameters for later,
// so that the gradient of the model's input, for which somebody waits, comes early.
//
//   LaterGradients later;
//   at::Tensor output;
//   {
//     const LaterGradients::Scope scope(later);
//     output = model->forward(input);  // whose layers call in_two_parts()
//   }
//   later.settle({output});
//   output.backward(gradient);  // makes input.grad(), and the gradients that are not left
//   later.make();               // makes the others, at each parameter's own node, with its hooks
//
// The gradients have the bits of one backward pass, since autograd makes both parts by the graph
// that it recorded. Until make() a layer keeps what autograd saved for its parameters, and the
// gradient of its output.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace paceline {

// THREAD: one. A backward pass may go through it on other threads.
class LaterGradients {
 public:
  // While it lives, layers that run on this thread leave their part to it. Scopes may be nested.
  class Scope {
   public:
    explicit Scope(LaterGradients& later);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    LaterGradients* const before_;
  };

  // Called before the backward pass, with what it begins at. Only here is it decided what is left:
  // a parameter that something else uses too has its whole gradient made in the pass, as a sum
  // rounds in another order if its terms come at two times.
  void settle(const std::vector<at::Tensor>& roots);
  bool is_empty() const { return calls_.empty(); }  // once it is settled: nothing is left
  // Called once, after the backward pass.
  void make();

  struct Call;

 private:
  friend at::Tensor in_two_parts(const std::function<at::Tensor(const at::Tensor&)>& layer,
                                 const at::Tensor& input,
                                 const std::vector<at::Tensor>& parameters);

  std::vector<std::shared_ptr<Call>> calls_;  // in the order of the forward pass
};

// Runs the layer, within a Scope so that its backward pass has two parts. Undefined parameters do
// not count. REQUIRES: the layer uses no tensor with a history but `input`; its operators make the
// gradients of the input and those of the parameters apart. THROWS Error (misuse), in the backward
// pass: create_graph; a second pass without retain_graph.
at::Tensor in_two_parts(const std::function<at::Tensor(const at::Tensor&)>& layer,
                        const at::Tensor& input, const std::vector<at::Tensor>& parameters);

}  // namespace paceline
