#include "paceline/torch/pipeline/recompute/recompute.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "paceline/core/base/result.h"
#include "paceline/torch/pipeline/recompute/captured_tensors.h"
#include "paceline/torch/pipeline/recompute/pass_state.h"

namespace paceline {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;
using Function = std::function<Tensors(const Tensors&)>;

// An input as it is kept: without its history, which the graph has.
struct KeptInput {
  explicit KeptInput(const at::Tensor& input) {
    if (!input.defined()) return;
    tensor = input.detach();
    as_it_was.emplace(tensor);
    requires_grad = input.requires_grad();
    is_leaf = input.is_leaf();
  }
  bool is_unchanged() const { return !as_it_was || as_it_was->is_unchanged(tensor); }

  at::Tensor tensor;
  std::optional<CapturedTensor> as_it_was;
  bool requires_grad = false, is_leaf = true;
};

// Takes the gradient of a leaf before autograd would add it to grad, with the strides that it has.
class Catch final : public torch::autograd::FunctionPreHook {
 public:
  explicit Catch(std::shared_ptr<at::Tensor> caught) : caught_(std::move(caught)) {}
  variable_list operator()(const variable_list& gradients) override {
    *caught_ = gradients[0];
    return variable_list(gradients.size());
  }

 private:
  std::shared_ptr<at::Tensor> caught_;
};

// The inputs of the recorded pass, and the gradients that arrive at them.
class FedInputs {
 public:
  explicit FedInputs(const std::vector<KeptInput>& inputs) {
    const at::AutoGradMode recording(true);
    for (const KeptInput& input : inputs) {
      caught_.push_back(std::make_shared<at::Tensor>());
      at::Tensor fed = input.tensor.defined() ? input.tensor.detach() : at::Tensor();
      if (input.requires_grad) {
        fed.requires_grad_(true);
        leaves_.push_back(torch::autograd::impl::grad_accumulator(fed));
        leaves_.back()->add_pre_hook(std::make_unique<Catch>(caught_.back()));
        // Autocast caches the casts of leaves alone, which changes how their gradients add up.
        if (!input.is_leaf) fed = at::alias(fed);
      }
      tensors_.push_back(fed);
    }
  }
  const Tensors& tensors() const { return tensors_; }
  variable_list gradients() const {
    variable_list gradients;
    for (const auto& one : caught_) gradients.push_back(*one);
    return gradients;
  }

 private:
  Tensors tensors_;
  std::vector<std::shared_ptr<at::Tensor>> caught_;
  std::vector<std::shared_ptr<Node>> leaves_;  // with their hooks
};

// One call, as the backward pass needs it.
struct Call {
  Function function;
  std::vector<KeptInput> inputs;
  std::vector<std::string> outputs;  // as describe() tells them
  AutocastState autocast;
  at::Tensor generator;  // undefined: the call drew nothing
  CapturedTensors captured;
};

std::vector<std::string> described(const Tensors& tensors) {
  std::vector<std::string> texts;
  for (const at::Tensor& one : tensors)
    texts.push_back(one.defined() ? describe(one) : "an undefined tensor");
  return texts;
}

void require_same_outputs(const std::vector<std::string>& first,
                          const std::vector<std::string>& second) {
  if (first.size() != second.size()) {
    throw_misuse(c10::str("recompute: the function returned ", first.size(),
                          " outputs in the forward pass and ", second.size(),
                          " when it was computed again: it must compute the same both times"));
  }
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] == second[i]) continue;
    throw_misuse(c10::str("recompute: output ", i, " of the function was ", first[i],
                          " in the forward pass and ", second[i],
                          " when it was computed again: it must compute the same both times"));
  }
}

void require_unchanged(const Call& call) {
  const auto refuse = [](const std::string& what) {
    throw_misuse(c10::str("recompute: ", what,
                          " was changed between the forward pass and the backward pass, which "
                          "would compute the function again from other values: change it after "
                          "the backward pass, or hand in a copy"));
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].is_unchanged())
      refuse(c10::str("input ", i, " (", describe(call.inputs[i].tensor), ") of the function"));
  }
  if (const std::string changed = call.captured.changed(); !changed.empty())
    refuse(changed + ", in the order in which the function uses them,");
}

class Recomputed final : public Node {
 public:
  Recomputed(Call call, torch::autograd::edge_list edges)
      : Node(std::move(edges)), call_(std::move(call)) {}
  std::string name() const override { return "paceline::recompute"; }
  void release_variables() override { call_.reset(); }

  variable_list apply(variable_list&& gradients) override {
    require_plain_backward();
    const Call& call = *call_;
    require_unchanged(call);
    const FedInputs fed(call.inputs);
    // Graphs of the second pass may have saved these, so they are given back after its end.
    const ValuesBack values_back(call.captured.written);
    Tensors outputs = recorded(call, fed.tensors());
    Tensors roots, arriving;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!gradients[i].defined() || !outputs[i].defined() || !outputs[i].requires_grad()) continue;
      roots.push_back(std::move(outputs[i]));
      arriving.push_back(std::move(gradients[i]));
    }
    outputs.clear();
    if (!roots.empty()) torch::autograd::backward(roots, arriving);
    return fed.gradients();
  }

 private:
  void require_plain_backward() const {
    if (!call_) {
      throw_misuse(
          "recompute: a second backward pass goes through a function whose inputs were given up "
          "after the first one: call the first with retain_graph=true");
    }
    if (at::GradMode::is_enabled()) {
      throw_misuse(
          "recompute: a backward with create_graph=true makes gradients of gradients, and would "
          "miss those of what is computed again: leave create_graph out, or call the function "
          "without recompute");
    }
    if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid()) {
      throw_misuse(
          "recompute: gradients of chosen tensors were asked for (torch::autograd::grad, or "
          "backward with inputs), and the function's parameters would get theirs unasked: call "
          "backward() for all, or call the function without recompute");
    }
  }

  static Tensors recorded(const Call& call, const Tensors& inputs) {
    const at::AutoGradMode recording(true);
    const GeneratorFrom generator(call.generator);
    const AutocastAs autocast(call.autocast);
    Tensors outputs = call.function(inputs);
    require_same_outputs(call.outputs, described(outputs));
    return outputs;
  }

  std::optional<Call> call_;
};

// The first pass. Its outputs are detached: some could be inputs or parameters themselves.
Tensors unrecorded(Call& call) {
  const at::NoGradGuard no_grad;
  Tensors inputs, outputs;
  for (const KeptInput& input : call.inputs) {
    inputs.push_back(input.tensor.defined() ? input.tensor.detach() : at::Tensor());
    // Some operators choose a kernel by it.
    if (input.requires_grad) inputs.back().requires_grad_(true);
  }
  // Autocast would keep casts that are not recorded for functions that are.
  AutocastState without_cache = call.autocast;
  without_cache.caches = false;
  const AutocastAs autocast(without_cache);
  const at::Tensor before = generator_state();
  const CaptureWatch watch(inputs);
  for (const at::Tensor& output : call.function(inputs))
    outputs.push_back(output.defined() ? output.detach() : output);
  if (!watch.graph_tensor().empty()) {
    throw_misuse(c10::str("recompute: the function reads ", watch.graph_tensor(),
                          ", which has a history and is not among its inputs, so that its gradient "
                          "would be lost: hand it in as an input"));
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].is_unchanged()) continue;
    throw_misuse(c10::str("recompute: the function writes to its input ", i, " (",
                          describe(call.inputs[i].tensor),
                          ") in place, so it cannot be computed again: let it work on a copy"));
  }
  call.captured = watch.captured(outputs);
  const at::Tensor after = generator_state();
  if (std::memcmp(before.const_data_ptr(), after.const_data_ptr(), before.nbytes()) != 0)
    call.generator = before;
  call.outputs = described(outputs);
  return outputs;
}

}  // namespace

Tensors recompute(const Function& function, const Tensors& inputs) {
  if (!function) throw_misuse("recompute: the function is empty");
  if (!at::GradMode::is_enabled()) return function(inputs);
  Call call{.function = function};
  for (const at::Tensor& input : inputs) call.inputs.emplace_back(input);
  Tensors outputs = unrecorded(call);
  // A node without edges is reached too: so parameters get gradients where no input requires one.
  const auto node = std::shared_ptr<Recomputed>(
      new Recomputed(std::move(call), torch::autograd::collect_next_edges(inputs)),
      torch::autograd::deleteNode);
  for (const at::Tensor& output : outputs) {
    const bool has_gradient =
        output.defined() && torch::autograd::isDifferentiableType(output.scalar_type());
    torch::autograd::set_history(has_gradient ? output : at::Tensor(), node);
  }
  return outputs;
}

at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& function,
                     const at::Tensor& input) {
  if (!function) throw_misuse("recompute: the function is empty");
  const auto of_lists = [function](const Tensors& inputs) {
    return Tensors{function(inputs.front())};
  };
  return recompute(Function(of_lists), Tensors{input}).front();
}

}  // namespace paceline
