// PowerSGD (Vogels et al. 2019) approximates the mean gradient by a matrix of low rank, by one step
// of subspace iteration with two small all_reduces.
//
//   A = gradient + residual (rows x columns),  Q = last step's, orthonormal
//   P = mean(A Q), made orthonormal;  Q_own = A^T P,  Q = mean(Q_own)
//   result P Q^T,  residual = A - P Q_own^T
//
// Bytes: 4 rank (rows + columns), for any number of ranks. The residual is the rank's own: the one
// of the authors' program, A - P Q^T, has the same mean, but the differences between ranks never
// drain from it (docs/compression/power_sgd.md). P must have the same bits on all ranks, so the
// all_reduce must give all ranks the same bits.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

struct LowRankOptions {
  int rank = 2;  // the most that the result has
  // Starts from the last step's Q, so that steps iterate; else from a random one.
  bool warm_start = true;
  bool feedback = true;
  std::uint32_t dense_steps = 0;  // uncompressed first steps: their gradients change much
};

// Tells whether it sends less than 1 / min_rate of the tensor; otherwise the tensor should travel
// whole.
bool low_rank_pays(const AveragedTensor& part, int rank, double min_rate);

std::unique_ptr<Averaging> low_rank_average(const AveragedTensor& part,
                                            const LowRankOptions& options = {});

}  // namespace paceline::compress
