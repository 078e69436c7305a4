#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "paceline/torch/checkpoint/checkpoint_part.h"
#include "paceline/torch/checkpoint/own_share.h"

namespace paceline::checkpointing {
namespace {

class ModelPart final : public CheckpointPart {
 public:
  ModelPart(std::vector<const torch::nn::Module*> modules, HowHeld how_held,
            std::vector<std::string> elsewhere)
      : modules_(std::move(modules)),
        how_held_(std::move(how_held)),
        elsewhere_(std::move(elsewhere)) {}

  // No operator touches a parameter here: it may have no memory.
  void require_savable(const std::string& item) override {
    const auto require = [&](const auto& named) {
      for (const auto& entry : named)
        if (entry.value().defined())
          checkpointing::require_savable(item, {entry.key(), entry.value()});
    };
    for (const auto* module : modules_) {
      require(module->named_parameters());
      require(module->named_buffers());
    }
  }

  ItemState state() override {
    std::vector<std::pair<std::string, at::Tensor>> named;
    std::map<const c10::TensorImpl*, std::size_t> places;
    const auto add = [&](const std::string& name, const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      const auto [place, is_new] = places.emplace(tensor.unsafeGetTensorImpl(), named.size());
      if (is_new) named.emplace_back(name, tensor);
      std::string& kept = named[place->second].first;
      kept = std::min(kept, name);
    };
    for (const auto* module : modules_) {
      for (const auto& entry : module->named_parameters()) add(entry.key(), entry.value());
      for (const auto& entry : module->named_buffers()) add(entry.key(), entry.value());
    }
    ItemState state;
    for (const auto& [name, tensor] : named)
      std::ranges::move(how_held_(name, tensor, tensor), std::back_inserter(state.tensors));
    return state;
  }

  void check(const SavedItem& saved) override {
    std::vector<std::string> names = elsewhere_;
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
  const std::vector<const torch::nn::Module*> modules_;
  const HowHeld how_held_;
  const std::vector<std::string> elsewhere_;  // tensors of stages that other ranks have
};

}  // namespace

PartPtr model_part(const torch::nn::Module& model, HowHeld how_held) {
  return model_part({&model}, std::move(how_held), {});
}

PartPtr model_part(std::vector<const torch::nn::Module*> stages, HowHeld how_held,
                   std::vector<std::string> elsewhere) {
  return std::make_unique<ModelPart>(std::move(stages), std::move(how_held), std::move(elsewhere));
}

}  // namespace paceline::checkpointing
