#include "paceline/torch/tensor/torch_layers.h"

#include <torch/torch.h>

#include "paceline/torch/tensor/embedding.h"
#include "paceline/torch/tensor/layer_norm.h"
#include "paceline/torch/tensor/linear.h"

namespace paceline::tensor {
namespace {

struct Position {
  std::shared_ptr<torch::nn::Module> parent;  // null: the model itself
  std::string name;
};

Position position_of(const torch::nn::Module& model, const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {nullptr, path};
  const auto modules = model.named_modules(/*name_prefix=*/{}, /*include_self=*/false);
  return {modules[path.substr(0, dot)], path.substr(dot + 1)};
}

torch::nn::SequentialImpl* sequence_at(torch::nn::Module& model, const Position& position) {
  torch::nn::Module& parent = position.parent ? *position.parent : model;
  return parent.as<torch::nn::SequentialImpl>();
}

torch::nn::AnyModule any_of(const std::shared_ptr<torch::nn::Module>& layer) {
  if (auto linear = std::dynamic_pointer_cast<LinearImpl>(layer))
    return torch::nn::AnyModule(std::move(linear));
  if (auto embedding = std::dynamic_pointer_cast<EmbeddingImpl>(layer))
    return torch::nn::AnyModule(std::move(embedding));
  return torch::nn::AnyModule(std::dynamic_pointer_cast<LayerNormImpl>(layer));
}

}  // namespace

std::shared_ptr<torch::nn::Module> replacement_of(const torch::nn::Module& layer) {
  if (const auto* linear = layer.as<torch::nn::LinearImpl>())
    return std::make_shared<LinearImpl>(*linear);
  if (const auto* embedding = layer.as<torch::nn::EmbeddingImpl>())
    return std::make_shared<EmbeddingImpl>(*embedding);
  if (const auto* norm = layer.as<torch::nn::LayerNormImpl>())
    return std::make_shared<LayerNormImpl>(*norm);
  return nullptr;
}

bool is_replaceable(torch::nn::Module& model, const std::string& path) {
  return sequence_at(model, position_of(model, path)) != nullptr;
}

void replace(torch::nn::Module& model, const std::string& path,
             const std::shared_ptr<torch::nn::Module>& layer) {
  const Position position = position_of(model, path);
  torch::nn::SequentialImpl& sequence = *sequence_at(model, position);
  std::size_t place = 0;
  const auto names = sequence.named_children().keys();
  for (torch::nn::AnyModule& element : sequence) {
    if (names[place++] != position.name) continue;
    element = any_of(layer);
    sequence.replace_module(position.name, layer);
  }
}

}  // namespace paceline::tensor
