// CaptureWatch: finds the tensors that a function uses beside its inputs, parameters, buffers and
// constants.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "paceline/torch/bridge/bridge.h"

namespace paceline {

// A tensor as it was at one time. It is not kept alive.
struct CapturedTensor {
  explicit CapturedTensor(const at::Tensor& tensor);
  at::Tensor lock() const;  // undefined: it is gone
  // It was neither written to, as far as autograd knows, nor given other memory.
  bool is_unchanged(const at::Tensor& now) const;

  c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl> tensor;
  std::uint32_t version = 0;
  const void* memory = nullptr;
};

// The tensors that one call has used, and that outlive it.
struct CapturedTensors {
  std::vector<CapturedTensor> parameters;  // in the order of their first use
  std::vector<CapturedTensor> constants;   // neither parameters nor written to
  std::vector<CapturedTensor> written;     // as running statistics are

  // Says which parameter or constant was changed since the call; empty: none was.
  std::string changed() const;
};

// While it lives, it sees what operators of libtorch read on this thread, where autograd does not
// record. COST: some 0.1 us for each operator. THREAD: the one that made it.
class CaptureWatch final : OperatorWatch {
 public:
  // `inputs` and their memory do not count.
  explicit CaptureWatch(const std::vector<at::Tensor>& inputs);

  // Call it when the tensors that the function has made are gone, except those that it keeps and
  // the memory of `outputs`, which do not count as constants.
  CapturedTensors captured(const std::vector<at::Tensor>& outputs) const;
  // A tensor that was read and is part of a graph, as text; empty: there was none.
  const std::string& graph_tensor() const { return graph_tensor_; }

 private:
  struct Seen {
    CapturedTensor tensor;
    bool is_parameter = false;
    bool is_written = false;  // by an operator that hides it from autograd
  };
  void look_at(const at::Tensor& input, const Argument& argument) override;

  std::vector<Seen> seen_;  // in the order of their first use
  // The places there. No other tensor gets such an address, as each is referred to weakly.
  std::unordered_map<const void*, std::size_t> places_;
  std::vector<at::Tensor> inputs_;
  std::string graph_tensor_;
};

}  // namespace paceline
