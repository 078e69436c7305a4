// Attention over sequences whose tokens are shared among ranks (the axis cp of a mesh).
//
//   at::Tensor own = paceline::zigzag_part(tokens, 1, mesh.group("cp"));  // [batch, length / c]
//   ...
//   at::Tensor seen = paceline::ring_attention(q, k, v, mesh.group("cp"));
//
// Liu, Zaharia, Abbeel, Ring Attention with Blockwise Transformers for Near-Infinite Context, 2023:
// keys and values travel round the ranks, each computes with those that it has while the next ones
// are on their way, and results are merged by their log-sum-exp. In backward the gradients of keys
// and values travel along with them, and come home.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "paceline/core/collective/group/communicator.h"

namespace paceline {

struct RingAttentionOptions {
  bool is_causal = true;  // a token sees those before it, and itself
  double scale = 0;       // of the products of queries and keys; 0: 1 / sqrt(head_size)
};

// query: [batch, heads, own tokens, head_size], key and value: [batch, kv_heads, own tokens,
// head_size], where kv_heads divides heads. If causal, the tokens are those of zigzag_positions(),
// and all ranks compute the same; else any equal parts. Returns [batch, heads, own tokens,
// head_size]. Every rank of the group calls it, in the same order; the group outlives the graph.
//
// Forward sends 2 (c - 1) times what one rank has of keys, backward 2 (c - 1) + 2 c times. Memory
// grows with the square of a rank's own tokens, not of the sequence. THREAD: the one that runs
// forward and backward. THROWS Error, from both: misuse, shapes that do not fit; what ended the
// communication.
at::Tensor ring_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          Communicator& group, const RingAttentionOptions& options = {});

// Zigzag: the order in which ranks share sequences so that causal attention costs all of them the
// same. Of 2c equal chunks of a sequence rank i holds the chunks i and 2c - 1 - i, one that few
// tokens see and one that many do.
//
// The positions of this rank's tokens in the sequence, in the order in which it holds them: whole
// numbers, rising. THROWS Error (misuse): twice the number of ranks does not divide `length`.
at::Tensor zigzag_positions(std::int64_t length, const Communicator& group);

// This rank's part of whole sequences, which lie along `dimension`. THROWS Error: as above.
at::Tensor zigzag_part(const at::Tensor& whole, std::int64_t dimension, const Communicator& group);

}  // namespace paceline
