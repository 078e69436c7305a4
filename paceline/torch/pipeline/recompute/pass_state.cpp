#include "paceline/torch/pipeline/recompute/pass_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <mutex>

namespace paceline {
namespace {

void set_generator(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

GeneratorFrom::GeneratorFrom(const at::Tensor& state) {
  if (!state.defined()) return;
  before_ = generator_state();
  set_generator(state);
}

GeneratorFrom::~GeneratorFrom() {
  if (before_.defined()) set_generator(before_);
}

void AutocastState::set() const {
  at::autocast::set_autocast_enabled(at::kCPU, is_enabled);
  at::autocast::set_autocast_cache_enabled(caches);
  at::autocast::set_autocast_dtype(at::kCPU, type);
}

AutocastAs::AutocastAs(const AutocastState& state) : has_cache_(state.is_enabled && state.caches) {
  state.set();
  if (!has_cache_) return;
  at::autocast::increment_nesting();
  at::autocast::clear_cache();
}

AutocastAs::~AutocastAs() {
  before_.set();
  if (!has_cache_) return;
  at::autocast::decrement_nesting();
  at::autocast::clear_cache();
}

ValuesBack::ValuesBack(const std::vector<CapturedTensor>& tensors) {
  for (const CapturedTensor& one : tensors) {
    if (at::Tensor tensor = one.lock(); tensor.defined())
      values_.emplace_back(tensor, tensor.detach().clone());
  }
}

ValuesBack::~ValuesBack() {
  const at::NoGradGuard no_grad;
  for (auto& [tensor, value] : values_) tensor.data().copy_(value);
}

}  // namespace paceline
