// Attention over sequences whose tokens are shared among ranks, by heads.
//
// Jacobs et al., DeepSpeed Ulysses, 2023: each rank trades its part of the sequence of all heads
// for the whole sequence of some heads, attends, and trades back. It sends less than
// ring_attention() where ranks are many, and uses libtorch's kernels; but ranks must divide the
// heads.
#pragma once

#include <ATen/core/Tensor.h>

#include "paceline/core/collective/group/communicator.h"

namespace paceline {

// query: [batch, heads, own tokens, head_size], key and value: [batch, kv_heads, own tokens,
// head_size]; the own tokens are the rank's equal part of the sequence, in rank order. Returns
// [batch, heads, own tokens, head_size]. Four all_to_alls forward, four backward. Every rank of the
// group calls it, in the same order; the group outlives the graph. THROWS Error: misuse, ranks that
// do not divide heads and kv_heads; what ended the communication, from backward too.
at::Tensor ulysses_attention(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, Communicator& group, bool is_causal = true);

}  // namespace paceline
