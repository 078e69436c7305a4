// The door of tensor: layers whose parameters are split among ranks.
//
// A model declares its layers as paceline::Linear, Embedding, LayerNorm, Dropout and
// CrossEntropyLoss (linear.h, embedding.h, layer_norm.h, dropout.h, cross_entropy.h), which are
// torch's until a plan splits them: parallelize.h. How activations pass between them is exchanges.h
// and column_product.h; which layers a plan speaks of, parallelize.h. Attention over sequences that
// ranks share is ring_attention.h and ulysses_attention.h. Start reading at parallelize.h.
#pragma once

#include "paceline/torch/tensor/cross_entropy.h"
#include "paceline/torch/tensor/dropout.h"
#include "paceline/torch/tensor/embedding.h"
#include "paceline/torch/tensor/layer_norm.h"
#include "paceline/torch/tensor/linear.h"
#include "paceline/torch/tensor/parallelize.h"
#include "paceline/torch/tensor/region.h"
#include "paceline/torch/tensor/ring_attention.h"
#include "paceline/torch/tensor/ulysses_attention.h"
