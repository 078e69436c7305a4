// The state in which a pass ran, beside its inputs: scopes that bring it back for a second pass.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "paceline/torch/pipeline/recompute/captured_tensors.h"

namespace paceline {

// That of libtorch's default CPU generator, which all threads share.
at::Tensor generator_state();

// While it lives, that generator goes on from `state`; afterwards from where it was. Undefined:
// nothing was drawn from it.
class GeneratorFrom {
 public:
  explicit GeneratorFrom(const at::Tensor& state);
  GeneratorFrom(const GeneratorFrom&) = delete;
  GeneratorFrom& operator=(const GeneratorFrom&) = delete;
  ~GeneratorFrom();

 private:
  at::Tensor before_;
};

// It holds the state of the present thread, on the CPU, at the time when it is made.
struct AutocastState {
  bool is_enabled = at::autocast::is_autocast_enabled(at::kCPU);
  bool caches = at::autocast::is_autocast_cache_enabled();
  at::ScalarType type = at::autocast::get_autocast_dtype(at::kCPU);

  void set() const;
};

// While it lives, autocast is in this state. Casts that it caches are of this time alone, since
// those from before belong to other graphs. THREAD: one.
class AutocastAs {
 public:
  explicit AutocastAs(const AutocastState& state);
  AutocastAs(const AutocastAs&) = delete;
  AutocastAs& operator=(const AutocastAs&) = delete;
  ~AutocastAs();

 private:
  const AutocastState before_ = {};
  const bool has_cache_;
};

// Gives tensors back, at its end, the values that they had. Autograd does not notice, as graphs
// that saved them are not to be refused.
class ValuesBack {
 public:
  explicit ValuesBack(const std::vector<CapturedTensor>& tensors);
  ValuesBack(const ValuesBack&) = delete;
  ValuesBack& operator=(const ValuesBack&) = delete;
  ~ValuesBack();

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> values_;
};

}  // namespace paceline
