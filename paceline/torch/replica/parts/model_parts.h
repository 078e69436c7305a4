// A model as DataParallel sees it: which of its tensors are trained, frozen, or buffers.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paceline/torch/replica/parts/placement.h"

namespace paceline::replica {

struct Parameter {
  std::string name;
  at::Tensor tensor;
  // The model may compute with another tensor, of 16 bits: its gradients are added
  // to those of `tensor`, whose values are rounded to it after each step.
  at::Tensor computed = {};

  // The tensor that autograd sees.
  const at::Tensor& leaf() const { return computed.defined() ? computed : tensor; }
};

// A module that parameters are from, and its path in the model.
struct ModulePart {
  std::string name;
  std::weak_ptr<const torch::nn::Module> module;  // the model may end before its training
};

// In the order of registration; what is registered under two names stands under its first.
struct ModelParts {
  std::vector<Parameter> dense;   // trained, with gradients as large as themselves
  std::vector<Parameter> sparse;  // trained, with gradients of some rows
  std::vector<Parameter> frozen;
  std::vector<Parameter> buffers;
  // They tell which part of a parameter this rank holds, where several ranks are one replica.
  Placements placements = {};
  // The elements of torch::nn::Sequential and ModuleList to which parameters belong, by name: those
  // that are gathered together where parameters are sharded. All other parameters, and such as
  // stand in several of them, are not here.
  std::map<std::string, std::string> units;
  // The model, or its children where nobody shares it.
  std::vector<ModulePart> modules = {};
  // The training's own among those of its group, the same on all ranks; 0: of one rank alone.
  std::uint64_t training = 0;

  std::vector<at::Tensor> all() const;
  std::vector<Parameter> trained() const;  // the dense ones, then the sparse ones
  std::vector<Parameter> trained_and_frozen() const;
  at::Device device() const;  // of all parameters
  // A line for each that must be the same on all ranks.
  std::vector<std::string> description() const;
  // Takes the trained and the frozen parameters as they are now: frozen or not, of another shape or
  // type. THROWS as parts_of() does, and nothing has changed then.
  void look_again();
};

std::vector<at::Tensor> tensors_of(std::span<const Parameter> parameters);
bool is_among(const std::vector<Parameter>& parameters, const at::Tensor& tensor);

// Two tensors are aliases if they lie in one storage, or even have elements in common.
enum class Aliases : std::uint8_t { one_storage, common_elements };
// The names of two of these parameters that are aliases. Where parameters get memory of their own,
// or copies elsewhere, one would not follow the other any more. Nothing: there are none.
std::optional<std::pair<std::string, std::string>> aliases_in(
    const std::vector<Parameter>& parameters, Aliases kind = Aliases::one_storage);

// `sparse`: names of parameters whose gradients are sparse, beside those of torch::nn::Embedding
// and EmbeddingBag with sparse(true). THROWS Error (misuse): a tensor that cannot be carried, a
// name that the model lacks, or nothing to train.
ModelParts parts_of(const torch::nn::Module& model, const std::vector<std::string>& sparse = {});
// All of them are parameters.
ModelParts parts_of(const std::vector<Parameter>& parameters,
                    const std::vector<std::string>& sparse = {});

}  // namespace paceline::replica
