// One layer of a model that is trained as a pipeline: any module whose forward takes what the layer
// before it returns, one tensor or several.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"

namespace paceline {

using Tensors = std::vector<at::Tensor>;

namespace pipeline {

class PipelineLayer {
 public:
  virtual ~PipelineLayer() = default;
  virtual std::shared_ptr<torch::nn::Module> module() const = 0;
  // `name`: of the layer, for the text of an Error (misuse) on too many tensors.
  virtual Tensors forward(const Tensors& inputs, const std::string& name) = 0;
  // The same layer over module()->clone(). Null: the clone is of another class. THROWS c10::Error:
  // the module is not torch::nn::Cloneable.
  virtual std::unique_ptr<PipelineLayer> clone() const = 0;
};

inline const at::Tensor& only_tensor(const Tensors& inputs, const std::string& name) {
  if (inputs.size() == 1) return inputs.front();
  throw Error({Fault::misuse, "the layer '" + name + "' takes one tensor and was handed " +
                                  std::to_string(inputs.size()) +
                                  ": let its forward take a std::vector of tensors, or return one "
                                  "tensor from the layer before it"});
}

template <typename Output>
Tensors as_tensors(Output output) {
  if constexpr (std::convertible_to<Output, at::Tensor>) return {std::move(output)};
  else return output;
}

// `Holder`: a std::shared_ptr of a module, or what TORCH_MODULE makes.
template <typename Holder>
class HeldLayer final : public PipelineLayer {
 public:
  explicit HeldLayer(Holder holder) : holder_(std::move(holder)) {}
  std::shared_ptr<torch::nn::Module> module() const override {
    if constexpr (requires { holder_.ptr(); }) return holder_.ptr();
    else return holder_;
  }
  Tensors forward(const Tensors& inputs, const std::string& name) override {
    if constexpr (requires { holder_->forward(inputs); }) {
      static_cast<void>(name);
      return as_tensors(holder_->forward(inputs));
    } else {
      return as_tensors(holder_->forward(only_tensor(inputs, name)));
    }
  }
  std::unique_ptr<PipelineLayer> clone() const override {
    using Module = std::remove_cvref_t<decltype(*holder_)>;
    auto copy = std::dynamic_pointer_cast<Module>(module()->clone());
    if (copy == nullptr) return nullptr;
    return std::make_unique<HeldLayer>(Holder(std::move(copy)));
  }

 private:
  Holder holder_;
};

// An element of a torch::nn::Sequential.
class AnyLayer final : public PipelineLayer {
 public:
  explicit AnyLayer(torch::nn::AnyModule any) : any_(std::move(any)) {}
  std::shared_ptr<torch::nn::Module> module() const override { return any_.ptr(); }
  Tensors forward(const Tensors& inputs, const std::string& name) override {
    return {any_.forward<at::Tensor>(only_tensor(inputs, name))};
  }
  std::unique_ptr<PipelineLayer> clone() const override {
    return std::make_unique<AnyLayer>(any_.clone());
  }

 private:
  torch::nn::AnyModule any_;
};

}  // namespace pipeline
}  // namespace paceline
