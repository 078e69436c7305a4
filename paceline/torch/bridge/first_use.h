// Detects the first operator that reads a tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace paceline {

// While it lives, it calls `seen` once for each of `tensors`, before the first operator of libtorch
// that has the tensor, or another one over its memory such as a kept detach() or `.data()`, among
// its inputs (or in a list of them) runs on this thread. Operators that `seen` itself runs do not
// count. Accesses that bypass libtorch's dispatcher, such as data_ptr(), are not seen. `seen` must
// not throw (libtorch would log it and go on), and must not destroy this object. COST: some 0.1 us
// for each operator. THREAD: the one that made it.
class FirstUse {
 public:
  using Seen = std::function<void(std::size_t place)>;
  FirstUse(const std::vector<at::Tensor>& tensors, Seen seen);
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  FirstUse& operator=(const FirstUse&) = delete;

 private:
  friend struct FirstUseCallback;
  void look_at(const at::Tensor& tensor);
  void look_for(const void* tensor_or_storage);

  std::unordered_multimap<const void*, std::size_t> places_;  // only those not seen yet
  std::vector<bool> was_seen_;
  Seen seen_;
};

}  // namespace paceline
