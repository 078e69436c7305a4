#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "paceline/torch/checkpoint/checkpoint_part.h"

namespace paceline::checkpointing {
namespace {

class ModelPart final : public CheckpointPart {
 public:
  ModelPart(const torch::nn::Module& model, HowHeld how_held)
      : model_(model), how_held_(std::move(how_held)) {}

  ItemState state() override {
    ItemState state;
    std::map<const c10::TensorImpl*, std::size_t> places;
    const auto add = [&](const std::string& name, const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      const auto [place, is_new] =
          places.emplace(tensor.unsafeGetTensorImpl(), state.tensors.size());
      if (is_new) state.tensors.push_back(how_held_(name, tensor, tensor.detach()));
      std::string& kept = state.tensors[place->second].name;
      kept = std::min(kept, name);
    };
    for (const auto& entry : model_.named_parameters()) add(entry.key(), entry.value());
    for (const auto& entry : model_.named_buffers()) add(entry.key(), entry.value());
    return state;
  }

  void check(const SavedItem& saved) override {
    std::vector<std::string> names;
    for (const ItemTensor& one : state().tensors) {
      names.push_back(one.name);
      saved.require(one);
    }
    saved.require_no_other(names);
  }

  void load(const SavedItem& saved) override {
    for (const ItemTensor& one : state().tensors) saved.read_into(one);
  }

 private:
  const torch::nn::Module& model_;
  const HowHeld how_held_;
};

}  // namespace

MakesPart model_part(const torch::nn::Module& model, HowHeld how_held) {
  return std::make_unique<ModelPart>(model, std::move(how_held));
}

}  // namespace paceline::checkpointing
