#include "paceline/torch/gradient/passes.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::gradient {
namespace {

// The bits of a few elements. libtorch's C++ SGD and clip_grad_norm_ write through `.data()`, which
// leaves the version counter alone, so the version does not show every optimizer step; values do,
// unless the gradient was zero in all of these places. 0: the memory is not there, as that of
// sharded parameters out of their use, or on a device, which a look would wait for.
std::uint64_t probe(const at::Tensor& parameter) {
  constexpr std::size_t kProbes = 8;
  if (parameter.layout() != at::kStrided || !parameter.is_cpu() || !parameter.is_contiguous() ||
      parameter.numel() == 0 || parameter.storage().nbytes() == 0)
    return 0;
  const auto* bytes = static_cast<const std::byte*>(parameter.const_data_ptr());
  const std::size_t size = parameter.element_size(),
                    last = static_cast<std::size_t>(parameter.numel()) - 1;
  std::uint64_t fingerprint = 0;
  for (std::size_t k = 0; k < kProbes; ++k) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes + last * k / (kProbes - 1) * size, size);
    fingerprint = mix(fingerprint, bits);
  }
  return fingerprint;
}

}  // namespace

void ParameterWatch::gradient_made(std::size_t i) {
  const at::Tensor& tensor = parameters_[i].tensor;
  seen_[i].made = true;
  seen_[i].parameter_version = tensor._version();
  seen_[i].parameter_probe = probe(tensor);
  see_gradient(i);
  seen_[i].gradient_probe = probe(parameters_[i].tensor.grad());
}

void ParameterWatch::gradient_hidden(std::size_t i) {
  see_gradient(i);
  seen_[i].is_hidden = true;
}

void ParameterWatch::see_gradient(std::size_t i) {
  const at::Tensor& grad = parameters_[i].tensor.grad();
  seen_[i].gradient = grad.unsafeGetTensorImpl();
  seen_[i].gradient_version = grad._version();
}

std::string ParameterWatch::changed_parameter() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Seen& before = seen_[i];
    const at::Tensor& now = parameters_[i].tensor;
    if (!before.made) continue;
    if (now._version() != before.parameter_version) return parameters_[i].name;
    const std::uint64_t values = probe(now);
    if (values != before.parameter_probe && values != 0 && before.parameter_probe != 0)
      return parameters_[i].name;
  }
  return {};
}

std::string ParameterWatch::complaint() const {
  if (const std::string name = changed_parameter(); !name.empty()) {
    return c10::str(
        "the optimizer stepped without synchronize(), or something else wrote to the parameters: '",
        name,
        "' changed between backward() and synchronize(). Call parallel.step(optimizer) instead of "
        "optimizer.step(), or synchronize() before it");
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Seen& before = seen_[i];
    if (!before.made) continue;
    const at::Tensor& grad = parameters_[i].tensor.grad();
    if (!grad.defined() || grad.unsafeGetTensorImpl() != before.gradient ||
        grad._version() != before.gradient_version ||
        (!before.is_hidden && probe(grad) != before.gradient_probe)) {
      return c10::str("the gradient of '", parameters_[i].name,
                      "' was changed or dropped between backward() and synchronize(), while it was "
                      "being averaged. Set, clip or zero gradients before backward() or after "
                      "synchronize()");
    }
  }
  return {};
}

Passes::Passes(const std::vector<replica::Parameter>& parameters, int of_a_step)
    : parameters_(parameters),
      of_a_step_(of_a_step),
      watch_(parameters),
      made_(parameters.size()) {}

bool Passes::will_send(std::size_t i) const {
  return !is_paused_ && counted_ + (begins_pass(i) ? 1 : 0) >= of_a_step_;
}

void Passes::arriving(std::size_t i, bool is_sending) {
  const std::string& name = parameters_[i].name;
  if (backward_builds_graph()) {
    throw_misuse(
        c10::str("backward(create_graph=true) makes gradients of gradients, which DataParallel "
                 "cannot synchronise (at '",
                 name, "'): compute them with torch::autograd::grad, which leaves .grad alone"));
  }
  if (is_sending && !is_nested_backward() && begins_pass(i)) refuse_second_pass(i);
  if (made_[i].filled) {
    throw_misuse(c10::str(
        "a second gradient for parameter '", name,
        "' while the first one is in flight, by a second backward() or by two within one: a "
        "parameter may get one gradient in each step. Call synchronize() or step(optimizer) in "
        "between, or run the earlier passes under no_sync(). Where one backward() makes both, as "
        "of a module that is recomputed twice, run it under no_sync(), and end the guard before "
        "step(optimizer), which sends the sum then"));
  }
  enter_pass(i);
}

void Passes::refuse_second_pass(std::size_t i) const {
  if (const std::string name = watch_.changed_parameter(); !name.empty()) {
    throw_misuse(
        c10::str("the optimizer stepped without synchronize(): parameter '", name,
                 "' changed after its gradient was made and before it was averaged, so the "
                 "replicas differ now. Call parallel.step(optimizer) instead of "
                 "optimizer.step(), or synchronize() before it"));
  }
  if (of_a_step_ > 1) {
    throw_misuse(c10::str(
        "a second backward() before the last one was synchronised (gradient of '",
        parameters_[i].name, "'): the ", of_a_step_,
        " passes of this step (backward_passes_per_step) are done. Call step(optimizer) or "
        "synchronize() after each so many; passes that were left over, as at the end of an epoch, "
        "count too, and an early step(optimizer) there closes the window with what there is"));
  }
  throw_misuse(
      c10::str("a second backward() before the last one was synchronised (gradient of '",
               parameters_[i].name,
               "'): call synchronize() or step(optimizer) after each backward(); to "
               "accumulate over several passes run all but the last under no_sync(), or add "
               "up their losses"));
}

// A nested backward belongs to the pass around it, which has numbers below its own: of two that are
// nested, the second gradient of a parameter tells that they are of two passes.
bool Passes::begins_pass(std::size_t i) const {
  const int backward = current_backward();
  if (backward == present_.latest) return false;
  if (present_.number == 0) return true;
  if (is_nested_backward()) return made_[i].pass == present_.number;
  return backward != present_.outer && (present_.outer >= 0 || backward > present_.nested);
}

void Passes::enter_pass(std::size_t i) {
  if (begins_pass(i)) {
    present_ = {.number = present_.number + 1};
    if (!is_paused_) ++counted_;
  }
  present_.latest = current_backward();
  if (!is_nested_backward()) present_.outer = present_.latest;
  else if (present_.nested < 0) present_.nested = present_.latest;
  made_[i].pass = present_.number;
}

void Passes::require_dense(std::size_t i) const {
  const replica::Parameter& parameter = parameters_[i];
  const at::Tensor& grad = parameter.tensor.grad();
  if (grad.layout() == at::kStrided) return;
  throw_misuse(c10::str("parameter '", parameter.name, "' has a gradient of layout ", grad.layout(),
                        ", which was not announced: name it in DataParallelOptions::sparse "
                        "(torch::nn::Embedding with sparse(true) is known by itself), or make it "
                        "dense"));
}

void Passes::made(std::size_t i) {
  made_[i].counts = made_[i].filled = true;
  watch_.gradient_made(i);
}

void Passes::end_step() {
  present_ = {};
  counted_ = 0;
  made_.assign(parameters_.size(), {});
  watch_.forget();
}

bool Passes::has_accumulated_any() const {
  return std::ranges::any_of(made_, &Made::accumulated);
}

std::vector<bool> Passes::used() const {
  std::vector<bool> used;
  for (const Made& one : made_) used.push_back(one.counts || one.accumulated);
  return used;
}

}  // namespace paceline::gradient
