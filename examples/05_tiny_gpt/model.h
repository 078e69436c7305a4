// A small GPT, written once for one process and for every layout of ranks.
//
// Two things make it so: its layers are Paceline's, which a plan can split; and it takes numbers of
// heads from the widths of tensors, because a rank may have some of the heads alone.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "paceline/train.h"

namespace tiny_gpt {

struct Options {
  std::int64_t vocabulary = 64;  // words, or characters
  std::int64_t length = 64;      // of the longest sequence
  std::int64_t features = 128;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;  // heads of keys and values, each of which some heads of queries share
  std::int64_t layers = 4;
  double dropout = 0;

  std::int64_t head_size() const { return features / heads; }
};

class BlockImpl : public torch::nn::Cloneable<BlockImpl> {
 public:
  explicit BlockImpl(const Options& options);
  void reset() override;
  void share_sequences(paceline::Communicator& group) { context_ = &group; }
  // x: [batch, length, features]; with sequence parallelism, this rank's part of the length.
  at::Tensor forward(at::Tensor x);

 private:
  at::Tensor attend(const at::Tensor& x);

  Options options_;
  std::int64_t head_size_;
  paceline::Communicator* context_ = nullptr;  // of the ranks that share sequences; null: none do
  paceline::Dropout dropout1_{nullptr}, dropout2_{nullptr};
  paceline::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  paceline::Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, output_{nullptr};
  paceline::Linear up_{nullptr}, down_{nullptr};
};
TORCH_MODULE(Block);

class ModelImpl : public torch::nn::Module {
 public:
  explicit ModelImpl(const Options& options);
  // The ranks of this group share every sequence in zigzag (paceline::zigzag_part), each with
  // tokens and targets of its own.
  void share_sequences(paceline::Communicator& group);
  // tokens: [batch, length], whole numbers. The logits of the next word at each place:
  // [batch * length, words of this rank].
  at::Tensor forward(const at::Tensor& tokens);
  // The logits of the next word behind all of `tokens`, of all words, on every rank: [batch,
  // words].
  at::Tensor last_logits(const at::Tensor& tokens);
  // The mean loss of all places whose next word is in `targets`, [batch, length].
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets);

 private:
  paceline::Communicator* context_ = nullptr;
  paceline::Embedding embedding_{nullptr}, positions_{nullptr};
  torch::nn::ModuleList blocks_{nullptr};
  paceline::LayerNorm norm_{nullptr};
  paceline::Linear head_{nullptr};
  paceline::CrossEntropyLoss loss_{nullptr};
};
TORCH_MODULE(Model);

inline BlockImpl::BlockImpl(const Options& options)
    : options_(options), head_size_(options.head_size()) {
  reset();
}

inline void BlockImpl::reset() {
  const std::int64_t wide = options_.features, kv = options_.kv_heads * head_size_;
  norm1_ = register_module("norm1", paceline::LayerNorm(std::vector{wide}));
  query_ = register_module("query", paceline::Linear(wide, wide));
  // A bias of the keys would change no attention.
  key_ = register_module("key", paceline::Linear(torch::nn::LinearOptions(wide, kv).bias(false)));
  value_ = register_module("value", paceline::Linear(wide, kv));
  output_ = register_module("output", paceline::Linear(wide, wide));
  dropout1_ = register_module("dropout1", paceline::Dropout(options_.dropout));
  norm2_ = register_module("norm2", paceline::LayerNorm(std::vector{wide}));
  up_ = register_module("up", paceline::Linear(wide, 4 * wide));
  down_ = register_module("down", paceline::Linear(4 * wide, wide));
  dropout2_ = register_module("dropout2", paceline::Dropout(options_.dropout));
}

inline at::Tensor BlockImpl::attend(const at::Tensor& x) {
  const auto by_heads = [&](const at::Tensor& t) {
    return t.view({t.size(0), t.size(1), -1, head_size_}).transpose(1, 2);
  };
  const at::Tensor q = by_heads(query_(x));
  at::Tensor k = by_heads(key_(x)), v = by_heads(value_(x));
  if (context_ != nullptr) {
    return output_(paceline::ring_attention(q, k, v, *context_).transpose(1, 2).flatten(2));
  }
  if (const std::int64_t sharing = q.size(1) / k.size(1); sharing > 1) {
    k = k.repeat_interleave(sharing, 1);
    v = v.repeat_interleave(sharing, 1);
  }
  const at::Tensor seen = at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{},
                                                           /*dropout_p=*/0, /*is_causal=*/true);
  return output_(seen.transpose(1, 2).flatten(2));
}

inline at::Tensor BlockImpl::forward(at::Tensor x) {
  x = x + dropout1_(attend(norm1_(x)));
  return x + dropout2_(down_(at::gelu(up_(norm2_(x)))));
}

inline ModelImpl::ModelImpl(const Options& options) {
  embedding_ =
      register_module("embedding", paceline::Embedding(options.vocabulary, options.features));
  positions_ = register_module("positions", paceline::Embedding(options.length, options.features));
  blocks_ = register_module("blocks", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < options.layers; ++i) blocks_->push_back(Block(options));
  norm_ = register_module("norm", paceline::LayerNorm(std::vector{options.features}));
  head_ = register_module(
      "head",
      paceline::Linear(torch::nn::LinearOptions(options.features, options.vocabulary).bias(false)));
  loss_ = register_module("loss", paceline::CrossEntropyLoss());
  const torch::NoGradGuard no_grad;
  embedding_->weight.mul_(0.02);  // torch draws them of variance 1, too wide for logits
  positions_->weight.mul_(0.02);
  head_->tie(*embedding_);
}

inline void ModelImpl::share_sequences(paceline::Communicator& group) {
  if (group.size() == 1) return;
  context_ = &group;
  for (const auto& block : *blocks_) block->as<BlockImpl>()->share_sequences(group);
}

inline at::Tensor ModelImpl::forward(const at::Tensor& tokens) {
  const at::Tensor places = context_ == nullptr ? torch::arange(tokens.size(1), tokens.options())
                                                : paceline::zigzag_positions(
                                                      tokens.size(1) * context_->size(), *context_);
  at::Tensor x = embedding_(tokens) + positions_(places);
  for (const auto& block : *blocks_) x = block->as<BlockImpl>()->forward(x);
  return head_(norm_(x)).flatten(0, 1);
}

inline at::Tensor ModelImpl::last_logits(const at::Tensor& tokens) {
  return head_->gathered(forward(tokens).unflatten(0, tokens.sizes()).select(1, -1));
}

inline at::Tensor ModelImpl::loss(const at::Tensor& tokens, const at::Tensor& targets) {
  return loss_(forward(tokens), targets.flatten());
}

// How its layers are split among the ranks of the axis tp.
inline paceline::TensorPlan plan_of(const Options& options, bool is_sequence_parallel) {
  using enum paceline::ParallelStyle;
  const std::int64_t head_size = options.head_size();
  paceline::TensorPlan plan = {{"embedding", vocabulary},
                               {"blocks.*.query", heads, head_size},
                               {"blocks.*.key", heads, head_size},
                               {"blocks.*.value", heads, head_size},
                               {"blocks.*.output", row},
                               {"blocks.*.up", column},
                               {"blocks.*.down", row},
                               {"head", vocabulary}};
  if (is_sequence_parallel) {
    for (const char* path : {"positions", "blocks.*.norm1", "blocks.*.dropout1", "blocks.*.norm2",
                             "blocks.*.dropout2", "norm"})
      plan.push_back({path, sequence});
  }
  return plan;
}

}  // namespace tiny_gpt
