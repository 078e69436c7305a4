// The model of model.h as a list of layers, which a pipeline cuts into stages: embedding,
// positions, blocks.0 and so on, norm, head. Parameters have the names that they have there. The
// head may stand on another rank than the embedding, so it has a copy of its weight.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model.h"
#include "paceline/train.h"

namespace tiny_gpt {

// Adds what it knows of each place to the embeddings of the characters there.
class PositionsImpl : public paceline::EmbeddingImpl {
 public:
  // `context`: of the ranks that share sequences.
  PositionsImpl(const Options& config, paceline::Communicator& context)
      : EmbeddingImpl(config.length, config.features),
        places_(context.size() == 1 ? torch::arange(config.length, at::kLong)
                                    : paceline::zigzag_positions(config.length, context)) {}
  PositionsImpl(const EmbeddingImpl& rows, at::Tensor places)
      : EmbeddingImpl(rows), places_(std::move(places)) {}
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override {
    const auto rows = std::dynamic_pointer_cast<EmbeddingImpl>(EmbeddingImpl::clone(device));
    return std::make_shared<PositionsImpl>(*rows, places_);
  }
  at::Tensor forward(const at::Tensor& x) { return x + EmbeddingImpl::forward(places_); }

 private:
  at::Tensor places_;
};
TORCH_MODULE(Positions);

// The logits of the next character at each place: [batch, length, words of this rank].
class HeadImpl : public paceline::LinearImpl {
 public:
  explicit HeadImpl(const Options& config)
      : LinearImpl(torch::nn::LinearOptions(config.features, config.vocabulary).bias(false)),
        config_(config) {
    loss_ = register_module("loss", paceline::CrossEntropyLoss());
  }
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override {
    TORCH_CHECK(!place(),
                "a head that ranks share cannot be cloned: leave out tp, or choose "
                "--pipeline 1f1b, which keeps one version of the weights");
    const torch::NoGradGuard no_grad;
    auto copy = std::make_shared<HeadImpl>(config_);
    copy->weight.set_data(device ? weight.to(*device) : weight.clone());
    return copy;
  }
  // The mean loss of all places whose next character is in `targets`, [batch, length].
  at::Tensor loss(const at::Tensor& logits, const at::Tensor& targets) {
    return loss_(logits.flatten(0, 1), targets.flatten());
  }

 private:
  Options config_;
  paceline::CrossEntropyLoss loss_{nullptr};
};
TORCH_MODULE(Head);

// `made_head` becomes the head where this process makes it, and outlives the layers' use. The mesh
// outlives the layers that are made. `ties_head`: else the head has a weight of its own.
inline paceline::Layers layers_of(const Options& config, std::uint64_t seed, at::ScalarType type,
                                  paceline::DeviceMesh& mesh, Head& made_head, bool ties_head) {
  const auto narrowed = [](auto layer) {
    const torch::NoGradGuard no_grad;
    layer->weight.mul_(0.02);  // torch draws them of variance 1, too wide for logits
    return layer;
  };
  const auto typed = [type](auto layer) {
    layer->to(type);
    return layer;
  };
  paceline::Communicator& context = mesh.group("cp");
  paceline::Layers layers(seed);
  layers.add("embedding", [=] {
    return typed(narrowed(paceline::Embedding(config.vocabulary, config.features)));
  });
  layers.add("positions", [=, &context] { return typed(narrowed(Positions(config, context))); });
  for (std::int64_t i = 0; i < config.layers; ++i) {
    layers.add("blocks." + std::to_string(i), [=, &context] {
      Block block(config);
      if (context.size() > 1) block->share_sequences(context);
      return typed(block);
    });
  }
  layers.add("norm", [=] { return typed(paceline::LayerNorm(std::vector{config.features})); });
  layers.add("head", [=, &made_head] { return made_head = typed(Head(config)); });
  if (ties_head) layers.tie("embedding.weight", "head.weight");
  return layers;
}

}  // namespace tiny_gpt
