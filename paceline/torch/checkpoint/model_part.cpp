#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "paceline/torch/checkpoint/checkpoint_part.h"

namespace paceline::checkpointing {
namespace {

class ModelPart final : public CheckpointPart {
 public:
  ModelPart(const torch::nn::Module& model, MayDiffer may_differ)
      : model_(model), may_differ_(std::move(may_differ)) {}

  ItemState state() override {
    ItemState state;
    std::map<const c10::TensorImpl*, std::size_t> places;
    const auto add = [&](const std::string& name, const at::Tensor& tensor, Held held) {
      if (!tensor.defined()) return;
      const auto [place, is_new] =
          places.emplace(tensor.unsafeGetTensorImpl(), state.tensors.size());
      if (is_new) state.tensors.push_back({name, tensor.detach(), held});
      std::string& kept = state.tensors[place->second].name;
      kept = std::min(kept, name);
    };
    const auto held = [&](const at::Tensor& tensor) {
      return tensor.defined() && may_differ_(tensor) ? Held::by_each : Held::by_all;
    };
    for (const auto& entry : model_.named_parameters())
      add(entry.key(), entry.value(), held(entry.value()));
    for (const auto& entry : model_.named_buffers())
      add(entry.key(), entry.value(), held(entry.value()));
    return state;
  }

  void check(const SavedItem& saved) override {
    std::vector<std::string> names;
    for (const ItemTensor& one : state().tensors) {
      names.push_back(one.name);
      saved.require(one.name, one.held, one.tensor);
    }
    saved.require_no_other(names);
  }

  void load(const SavedItem& saved) override {
    for (const ItemTensor& one : state().tensors)
      saved.read_into(*saved.find(one.name, one.held), one.tensor);
  }

 private:
  const torch::nn::Module& model_;
  const MayDiffer may_differ_;
};

}  // namespace

MakesPart model_part(const torch::nn::Module& model, MayDiffer may_differ) {
  return std::make_unique<ModelPart>(model, std::move(may_differ));
}

}  // namespace paceline::checkpointing
