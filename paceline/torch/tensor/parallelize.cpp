#include "paceline/torch/tensor/parallelize.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/sha256.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/replica.h"
#include "paceline/torch/tensor/cross_entropy.h"
#include "paceline/torch/tensor/embedding.h"
#include "paceline/torch/tensor/layer_norm.h"
#include "paceline/torch/tensor/linear.h"

namespace paceline {
namespace {

using tensor::LayerPlace;
using tensor::LayerPlacePtr;
using tensor::PlacedLayer;
using tensor::PlannedLayer;
using tensor::Region;

PlacedLayer* placed_layer(torch::nn::Module& module) {
  return dynamic_cast<PlacedLayer*>(&module);
}

// The losses of a model whose logits are split take them so.
void add_losses(const torch::nn::Module& model, std::vector<PlannedLayer>& layers) {
  std::int64_t words = 0;
  for (const PlannedLayer& layer : layers) {
    if (layer.request.style != ParallelStyle::vocabulary) continue;
    if (const auto* head = layer.module->as<LinearImpl>()) words = head->options.out_features();
    if (const auto* head = layer.module->as<torch::nn::LinearImpl>())
      words = head->options.out_features();
  }
  if (words == 0) return;
  for (const auto& item : model.named_modules(/*name_prefix=*/{}, /*include_self=*/false)) {
    if (item.value()->as<CrossEntropyLossImpl>() == nullptr) continue;
    layers.push_back({item.key(),
                      item.value(),
                      {ParallelStyle::vocabulary, 0, words, layers.front().request.ranks}});
  }
}

// Layers that are Paceline's already stay; others get one, which stands nowhere yet.
std::vector<std::shared_ptr<torch::nn::Module>> replacements(
    torch::nn::Module& model, const std::vector<PlannedLayer>& layers) {
  std::vector<std::shared_ptr<torch::nn::Module>> made;
  std::string fixed;
  for (const PlannedLayer& layer : layers) {
    const bool is_ours = placed_layer(*layer.module) != nullptr;
    made.push_back(is_ours ? layer.module : tensor::replacement_of(*layer.module));
    if (made.back() == nullptr) {
      throw_misuse(c10::str("parallelize: layer '", layer.path, "' is a ", layer.module->name(),
                            ", which cannot be split: plans are for Linear, Embedding and "
                            "LayerNorm"));
    }
    if (!is_ours && !tensor::is_replaceable(model, layer.path))
      fixed += (fixed.empty() ? "'" : ", '") + layer.path + "'";
  }
  if (!fixed.empty()) {
    throw_misuse("parallelize: " + fixed +
                 " cannot be replaced from outside, because forward() of the module around it "
                 "calls its own member: declare it as paceline::Linear (Embedding, LayerNorm), or "
                 "put it into a torch::nn::Sequential");
  }
  return made;
}

void require_fit(const std::vector<PlannedLayer>& layers,
                 const std::vector<std::shared_ptr<torch::nn::Module>>& modules) {
  std::string objections;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const PlacedLayer& layer = *placed_layer(*modules[i]);
    const std::string objection =
        layer.place() ? "it is split already, by another plan" : layer.objection(layers[i].request);
    if (objection.empty()) continue;
    objections += c10::str(objections.empty() ? "" : "; ", "layer '", layers[i].path, "', style ",
                           name_of(layers[i].request.style), ": ", objection);
  }
  if (!objections.empty()) throw_misuse("parallelize: " + objections);
}

// All ranks take rank 0's values of what is not split.
void equalise_whole(const torch::nn::Module& model, const Region& region) {
  std::vector<at::Tensor> whole;
  for (const at::Tensor& tensor : model.parameters())
    if (std::ranges::none_of(region.placements, [&](const replica::Placement& placement) {
          return placement.tensor.is_same(tensor);
        }))
      whole.push_back(tensor);
  for (const at::Tensor& buffer : model.buffers()) whole.push_back(buffer);
  replica::broadcast_all(whole, *region.group, 0);
}

// Groups of ranks that hold the same shard, by their number of ranks; made by all ranks in one
// order.
class Copies {
 public:
  explicit Copies(Communicator& group) : group_(group) {}
  std::shared_ptr<Communicator> of(int each) {
    if (each == 1) return nullptr;
    std::shared_ptr<Communicator>& made = made_[each];
    if (!made) made = group_.split(group_.rank() / each);
    return made;
  }

 private:
  Communicator& group_;
  std::map<int, std::shared_ptr<Communicator>> made_;
};

}  // namespace

void parallelize(torch::nn::Module& model, DeviceMesh& mesh, const TensorPlan& plan) {
  auto region = std::make_shared<Region>();
  region->group = &mesh.group("tp");
  std::vector<PlannedLayer> layers = tensor::planned_layers(model, plan, region->size());
  add_losses(model, layers);
  const auto modules = replacements(model, layers);
  require_fit(layers, modules);

  region->is_sequence_parallel = std::ranges::any_of(layers, [](const PlannedLayer& layer) {
    return layer.request.style == ParallelStyle::sequence;
  });
  Copies copies(*region->group);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (modules[i] != layers[i].module) tensor::replace(model, layers[i].path, modules[i]);
    PlacedLayer& layer = *placed_layer(*modules[i]);
    auto place = c10::make_intrusive<LayerPlace>();
    place->region = region;
    place->layer = layers[i].path;
    place->copies = copies.of(layer.copies(layers[i].request));
    layer.place(layers[i].request, place);
  }
  equalise_whole(model, *region);
}

std::vector<at::Tensor> whole_parameters(const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  const replica::Placements placements = tensor::placements_of(model);
  std::vector<at::Tensor> whole;
  for (const at::Tensor& parameter : model.parameters())
    whole.push_back(placements.gathered(parameter, parameter.detach()));
  return whole;
}

std::string whole_sha256(const torch::nn::Module& model) {
  constexpr std::int64_t kMostBytes = 16 << 20;
  const at::NoGradGuard no_grad;
  const replica::Placements placements = tensor::placements_of(model);
  Sha256 digest;
  for (const at::Tensor& parameter : model.parameters()) {
    const at::Tensor part = parameter.detach().contiguous();
    if (placements.is_whole(parameter)) {
      digest.add(buffer_of(part.cpu()).bytes());
      continue;
    }
    const auto shape = placements.whole_shape(parameter);
    const std::int64_t rows = shape[0], bytes = c10::multiply_integers(shape) * part.itemsize();
    const std::int64_t each =
        std::max<std::int64_t>(1, rows * kMostBytes / std::max(bytes, kMostBytes));
    for (std::int64_t row = 0; row < rows; row += each) {
      const std::int64_t some = std::min(each, rows - row);
      digest.add(buffer_of(placements.gathered_rows(parameter, part, row, some).cpu()).bytes());
    }
  }
  return digest.hex();
}

replica::Placements tensor::placements_of(const torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* const layer = dynamic_cast<const PlacedLayer*>(module.get());
    const LayerPlacePtr place = layer == nullptr ? LayerPlacePtr() : layer->place();
    if (place && place->region->size() > 1)
      return replica::Placements(place->region->placements, *place->region->group);
  }
  return {};
}
}  // namespace paceline

namespace paceline::tensor {
namespace {

// The first element of a path, which loses it.
std::string_view take_element(std::string_view& path) {
  const std::size_t end = path.find('.');
  const std::string_view element = path.substr(0, end);
  path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
  return element;
}

std::string layers_of(const torch::nn::Module& model) {
  constexpr std::size_t kMost = 20;
  std::string paths;
  std::size_t layers = 0;
  for (const auto& item : model.named_modules(/*name_prefix=*/{}, /*include_self=*/false)) {
    if (!item.value()->children().empty()) continue;
    if (++layers <= kMost) paths += (paths.empty() ? "" : ", ") + item.key();
  }
  return layers > kMost ? paths + c10::str(", and ", layers - kMost, " more") : paths;
}

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

bool matches(std::string_view pattern, std::string_view path) {
  while (!pattern.empty() && !path.empty()) {
    const std::string_view expected = take_element(pattern), element = take_element(path);
    if (expected != "*" && expected != element) return false;
  }
  return pattern.empty() && path.empty();
}

std::vector<PlannedLayer> planned_layers(const torch::nn::Module& model, const TensorPlan& plan,
                                         int ranks) {
  std::vector<PlannedLayer> layers;
  std::vector<bool> is_used(plan.size());
  for (const auto& item : model.named_modules(/*name_prefix=*/{}, /*include_self=*/false)) {
    const PlanEntry* found = nullptr;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (!matches(plan[i].path, item.key())) continue;
      is_used[i] = true;
      if (found != nullptr) {
        throw_misuse(c10::str("parallelize: the plan's entries \"", found->path, "\" and \"",
                              plan[i].path, "\" both speak of layer '", item.key(),
                              "': leave one of them out"));
      }
      found = &plan[i];
    }
    if (found == nullptr) continue;
    layers.push_back({item.key(), item.value(), {found->style, found->head_size, 0, ranks}});
  }
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (is_used[i]) continue;
    throw_misuse(c10::str("parallelize: the plan's entry \"", plan[i].path,
                          "\" matches no layer; the model has ", layers_of(model)));
  }
  return layers;
}

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
