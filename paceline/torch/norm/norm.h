// The door of norm: layers that normalise over the batches of all ranks.
//
// SyncBatchNorm computes over the global batch; convert_sync_batch_norm() puts it in the place of
// torch's BatchNorm.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/watch/wait_watch.h"

namespace paceline {

// SyncBatchNorm: batch normalisation over the global batch (docs/guide/data_parallel.md).
//
//   paceline::SyncBatchNorm norm(torch::nn::BatchNormOptions(64));  // for BatchNorm1d, 2d, 3d
//   paceline::convert_sync_batch_norm(*model);                      // or in a whole model
//   paceline::DataParallel parallel(model, job);                    // from here on over all ranks
//
// Forward normalises with mean and variance of all ranks' samples, backward lets gradients flow
// through them: the numbers are those of one process with the whole batch, also where batches
// differ in size (say weight(n) before the forward pass). Each layer makes all ranks wait for each
// other twice, so: every rank runs the same layers in the same order, and a rank of weight 0 runs
// forward and backward too, on an empty batch, as often as the others do in this step. Evaluation
// communicates nothing.

// The ranks over whose batches a layer computes; shared with the layer by who knows them.
struct BatchRanks {
  Communicator* group = nullptr;  // null: this rank's batch alone
  double weight = 1;  // with which this rank's gradients will be averaged; 0: its rows do not count
  std::vector<std::string> layers = {};  // their names in the model, the same on all ranks
  replica::WatchedLane lane = {};        // on which the layers call
};

// Parameters, buffers and options are those of torch::nn::BatchNorm1d/2d/3d, for input (N, C) and
// (N, C, ...).
class SyncBatchNormImpl
    : public torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& norm_options);
  // With the parameters themselves of `norm`, a BatchNorm of these options, with its buffers'
  // memory, and in its mode.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& norm_options, const torch::nn::Module& norm);

  // THROWS Error: misuse when all ranks together have one value for each channel in training; what
  // ended the communication. Its backward refuses create_graph (misuse).
  at::Tensor forward(const at::Tensor& input);

  // DataParallel does it with its own ranks, in a group made for these layers; when it ends, the
  // layer is a plain batch norm again. A copy of the layer (clone) shares them. Who does it by
  // hand: layers need a group (Communicator::split) of their own, because their collectives stand
  // between those of the gradients. `layer`: which of BatchRanks::layers this is; a failure tells
  // its name, and ranks that are in different layers at a time are told of both.
  void compute_over(std::shared_ptr<const BatchRanks> ranks, int layer = -1);

  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const at::Tensor& input) override;

 private:
  std::shared_ptr<const BatchRanks> ranks_;
  int layer_ = -1;
};
TORCH_MODULE(SyncBatchNorm);

// Makes every BatchNorm1d, 2d, 3d inside a torch::nn::Sequential, at any depth, a SyncBatchNorm
// over the same parameters and buffers, and returns how many it made. A BatchNorm that is a member
// of another module cannot be replaced from outside, because that module's forward() calls its
// member; THROWS Error (misuse) that names all of these and changes nothing: declare them as
// paceline::SyncBatchNorm. Optimizers and DataParallel may be made before or after; the latter only
// finds what was there.
std::size_t convert_sync_batch_norm(torch::nn::Module& model);

struct NamedSyncBatchNorm {
  std::string name;  // its path in the model
  SyncBatchNormImpl* layer = nullptr;
};

// Those in the model, itself included.
std::vector<NamedSyncBatchNorm> sync_batch_norms_in(torch::nn::Module& model);

}  // namespace paceline
