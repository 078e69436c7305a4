// Zigzag: the order in which ranks share sequences so that causal attention costs all of them the
// same. Of 2c equal chunks of a sequence rank i holds the chunks i and 2c - 1 - i, one that few
// tokens see and one that many do.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "paceline/core/collective/group/communicator.h"

namespace paceline {

// The positions of this rank's tokens in the sequence, in the order in which it holds them: whole
// numbers, rising. THROWS Error (misuse): twice the number of ranks does not divide `length`.
at::Tensor zigzag_positions(std::int64_t length, const Communicator& group);

// This rank's part of whole sequences, which lie along `dimension`. THROWS Error: as above.
at::Tensor zigzag_part(const at::Tensor& whole, std::int64_t dimension, const Communicator& group);

}  // namespace paceline
