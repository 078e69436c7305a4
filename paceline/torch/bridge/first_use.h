// Detects operators that are about to read tensors: the first one that reads a tensor, or each one
// that reads a storage; and those that are about to write to a tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace paceline {

// Sees the inputs of each operator of libtorch that runs on the thread that made it.
class OperatorWatch {
 protected:
  OperatorWatch();
  virtual ~OperatorWatch();

 public:
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;

 protected:
  // The argument of an operator that is about to run, in which a tensor is.
  struct Argument {
    const at::RecordFunction& function;
    std::size_t index;
    bool is_written() const;  // as the operator's schema tells
  };

 private:
  friend struct OperatorCallback;
  virtual void begins(const char* operation) { static_cast<void>(operation); }
  virtual void look_at(const at::Tensor& input, const Argument& argument) = 0;
  virtual void looked_at_all() {}  // the operator is about to run
};

// While it lives, it calls `seen` once for each of `tensors`, before the first operator of libtorch
// that has the tensor, or another one over its memory such as a kept detach() or `.data()`, among
// its inputs (or in a list of them) runs on this thread. Operators that `seen` itself runs do not
// count. Accesses that bypass libtorch's dispatcher, such as data_ptr(), are not seen. `seen` must
// not throw (libtorch would log it and go on), and must not destroy this object. COST: some 0.1 us
// for each operator. THREAD: the one that made it.
class FirstUse final : OperatorWatch {
 public:
  using Seen = std::function<void(std::size_t place)>;
  FirstUse(const std::vector<at::Tensor>& tensors, Seen seen);

 private:
  void look_at(const at::Tensor& input, const Argument& argument) override;
  void look_for(const void* tensor_or_storage);

  std::unordered_multimap<const void*, std::size_t> places_;  // only those not seen yet
  std::vector<bool> was_seen_;
  Seen seen_;
};

// While it lives, it calls `used` before every operator that has one of `storages` among its
// inputs, forward or backward, with the places of all that it has, each once. So memory may be put
// into a storage that is empty. For the rest as FirstUse. The storages outlive this.
class StorageUses final : OperatorWatch {
 public:
  using Used = std::function<void(const std::vector<std::size_t>& places)>;
  StorageUses(const std::vector<c10::Storage>& storages, Used used);

 private:
  void look_at(const at::Tensor& input, const Argument& argument) override;
  void looked_at_all() override;

  std::unordered_map<const void*, std::size_t> places_;
  std::vector<std::size_t> found_;  // of the present operator
  Used used_;
};

// While it lives, it calls `written` before every operator that writes to the memory of one of
// `tensors`, as an optimizer's step does, with its place. For the rest as FirstUse.
class TensorWrites final : OperatorWatch {
 public:
  using Written = std::function<void(std::size_t place)>;
  // REQUIRES: no two tensors share a storage.
  TensorWrites(const std::vector<at::Tensor>& tensors, Written written);

 private:
  void look_at(const at::Tensor& input, const Argument& argument) override;

  std::unordered_map<const void*, std::size_t> places_;
  Written written_;
};

// While it lives, it remembers whether a norm was taken of one of `storages`, and one of them was
// multiplied in place by a tensor afterwards: so clipping by a norm does. Backward passes do not
// count. THREAD: the one that made it.
class ScalingByNorm final : OperatorWatch {
 public:
  explicit ScalingByNorm(const std::vector<c10::Storage>& storages);
  bool was_seen() const { return was_seen_; }

 private:
  enum class Operation : std::uint8_t { other, norm, multiplication };
  void begins(const char* operation) override;
  void look_at(const at::Tensor& input, const Argument& argument) override;
  void looked_at_all() override;

  std::unordered_set<const void*> storages_;
  // They keep the addresses taken, not the memory, so that no other storage is mistaken for one.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> addresses_;
  Operation operation_ = Operation::other;
  bool has_storage_ = false, has_factor_ = false;  // the present operator, among its inputs
  bool took_norm_ = false, was_seen_ = false;
};

}  // namespace paceline
