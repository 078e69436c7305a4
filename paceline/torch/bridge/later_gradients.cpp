#include "paceline/torch/bridge/later_gradients.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "paceline/core/base/result.h"
#include "paceline/torch/bridge/tensors.h"

namespace paceline {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::variable_list;

// A call of a layer, which has a graph of its own.
struct LaterGradients::Call {
  Edge output, input;    // of that graph; the input has none where nobody asks for its gradient
  edge_list parameters;  // the nodes at which their gradients are added
  bool is_left = false;  // the gradients of parameters are made by make()
  at::Tensor gradient;   // of the output, if it has come and the rest is left
};

namespace {

using LaterCall = LaterGradients::Call;
using Nodes = std::unordered_set<const Node*>;

thread_local LaterGradients* present = nullptr;

std::shared_ptr<Node> shared(Node* node) {
  return std::shared_ptr<Node>(node, torch::autograd::deleteNode);
}

// The input of a layer's own graph ends here. A leaf would keep the input's memory.
struct GraphEnd final : Node {
  std::string name() const override { return "paceline::GraphEnd"; }
  variable_list apply(variable_list&&) override { return {}; }
};

// Stands for the layer in the graph of the model. Its edges lead to the input and the parameters.
class InTwoParts final : public Node {
 public:
  explicit InTwoParts(std::shared_ptr<LaterCall> call) : call_(std::move(call)) {}
  std::string name() const override { return "paceline::in_two_parts"; }
  void release_variables() override { call_.reset(); }

  variable_list apply(variable_list&& gradients) override {
    variable_list made(num_outputs());
    if (!gradients[0].defined()) return made;
    require_plain_backward();
    edge_list asked;
    if (call_->input.is_valid()) asked.push_back(call_->input);
    if (call_->is_left) call_->gradient = gradients[0];
    else asked.insert(asked.end(), call_->parameters.begin(), call_->parameters.end());
    if (asked.empty()) return made;
    const variable_list some = Engine::get_default_engine().execute(
        {call_->output}, {gradients[0]}, /*keep_graph=*/true, /*create_graph=*/false,
        /*accumulate_grad=*/false, asked);
    std::ranges::copy(some, made.begin() + (call_->input.is_valid() ? 0 : 1));
    return made;
  }

 private:
  void require_plain_backward() const {
    if (!call_) {
      throw_misuse(
          "a second backward pass goes through a layer whose graph was given up after the first "
          "one: call the first with retain_graph=true");
    }
    if (at::GradMode::is_enabled()) {
      throw_misuse(
          "a layer of a pipeline under \"zero_bubble\", which makes the gradients of its "
          "parameters later, was asked for gradients of gradients (create_graph=true): leave "
          "create_graph out, or choose schedule \"1f1b\"");
    }
  }

  std::shared_ptr<LaterCall> call_;
};

// The nodes that add up the gradients of leaves, as far as others lead to them than InTwoParts.
Nodes leaves_of_others(const std::vector<at::Tensor>& roots) {
  Nodes leaves, seen;
  std::vector<Node*> open;
  const auto reach = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const at::Tensor& root : roots) reach(root.grad_fn().get());
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    const bool is_split = dynamic_cast<InTwoParts*>(node) != nullptr;
    for (const Edge& edge : node->next_edges()) {
      const bool is_leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(edge.function.get());
      if (!is_leaf) reach(edge.function.get());
      else if (!is_split) leaves.insert(edge.function.get());
    }
  }
  return leaves;
}

}  // namespace

LaterGradients::Scope::Scope(LaterGradients& later) : before_(std::exchange(present, &later)) {}
LaterGradients::Scope::~Scope() {
  present = before_;
}

// A layer that leaves nothing takes the other parameters of its call with it.
void LaterGradients::settle(const std::vector<at::Tensor>& roots) {
  Nodes made_in_the_pass = leaves_of_others(roots);
  const auto is_made = [&](const Edge& edge) {
    return made_in_the_pass.contains(edge.function.get());
  };
  for (const auto& call : calls_) call->is_left = true;
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (const auto& call : calls_) {
      if (!call->is_left || std::ranges::none_of(call->parameters, is_made)) continue;
      call->is_left = false;
      for (const Edge& edge : call->parameters) made_in_the_pass.insert(edge.function.get());
      is_changed = true;
    }
  }
  std::erase_if(calls_, [](const auto& call) { return !call->is_left; });
}

// One pass of autograd makes all, so that it adds up the gradients of a parameter that several
// layers share before it hands them to the parameter.
void LaterGradients::make() {
  edge_list outputs, parameters;
  variable_list gradients;
  for (const auto& call : calls_) {
    if (!call->gradient.defined()) continue;
    outputs.push_back(std::move(call->output));
    gradients.push_back(std::move(call->gradient));
    parameters.insert(parameters.end(), call->parameters.begin(), call->parameters.end());
  }
  calls_.clear();
  if (outputs.empty()) return;
  Engine::get_default_engine().execute(outputs, gradients, /*keep_graph=*/false,
                                       /*create_graph=*/false, /*accumulate_grad=*/true,
                                       parameters);
}

at::Tensor in_two_parts(const std::function<at::Tensor(const at::Tensor&)>& layer,
                        const at::Tensor& input, const std::vector<at::Tensor>& parameters) {
  if (present == nullptr || !at::GradMode::is_enabled()) return layer(input);
  auto call = std::make_shared<LaterCall>();
  edge_list edges;
  for (const at::Tensor& one : parameters) {
    if (!one.defined() || !one.requires_grad()) continue;
    if (!one.is_leaf()) return layer(input);
    call->parameters.emplace_back(torch::autograd::impl::grad_accumulator(one), 0);
  }
  if (call->parameters.empty()) return layer(input);
  at::Tensor own_input = input.detach();
  if (input.requires_grad()) {
    torch::autograd::set_history(own_input, shared(new GraphEnd));
    call->input = torch::autograd::impl::gradient_edge(own_input);
    edges.push_back(torch::autograd::impl::gradient_edge(input));
  } else {
    edges.emplace_back();
  }
  const at::Tensor own_output = layer(own_input);
  call->output = torch::autograd::impl::gradient_edge(own_output);
  edges.insert(edges.end(), call->parameters.begin(), call->parameters.end());
  present->calls_.push_back(call);
  const auto node = shared(new InTwoParts(std::move(call)));
  node->set_next_edges(std::move(edges));
  at::Tensor output = own_output.detach();
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace paceline
