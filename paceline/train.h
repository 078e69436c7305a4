// Paceline's public face for training with libtorch (docs/guide/data_parallel.md).
//
//   #include <torch/torch.h>
//   #include "paceline/train.h"
//
//   int main() {
//     return paceline::run_main([](paceline::Job& job) {
//       torch::nn::Linear model(8, 1);
//       paceline::DataParallel parallel(model, job);
//       torch::optim::SGD optimizer(model->parameters(), 0.1);
//       for (int step = 0; step < 100; ++step) {
//         optimizer.zero_grad();
//         model->forward(torch::randn({32, 8})).square().mean().backward();
//         parallel.step(optimizer);
//       }
//       return 0;
//     });
//   }
//
//   DataParallel, Mirrored, Join          replicas in step, by any schedule, codec and strategy
//   DistributedOptimizer, clip_grad_norm  the same for loops that were written for one process
//   SyncBatchNorm                         norms over the batches of all ranks
//   buffer_of(), sha256_of()              tensors in collectives, and a digest of them
//   device_of()                           which GPU a rank trains on, or the CPU
//   DeviceMesh                            ranks on a grid: dp, tp, pp, cp
//   parallelize(), ring_attention(), ...  layers and sequences that ranks share
//   Layers, Pipeline, recompute()         models that are trained in stages
//   ServerEmbedding                       rows of sparse tables on servers, as a layer
//   Checkpoints, load_weights()           saves that go on with any number of ranks
//   data::                                data sets, and which rank takes which samples
//   Tickets                               parts of an epoch that rank 0 deals out
//   Sandblaster                           L-BFGS on whole data sets, on servers
//   optimizers::                          LARS, LAMB, quasi-Newton methods, SVRG
#pragma once

#include "paceline/core/coordination/tickets.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/core/pipeline/order/schedule_catalogue.h"
#include "paceline/core/plan/recompute_segments.h"
#include "paceline/paceline.h"
#include "paceline/torch/bridge/digest.h"
#include "paceline/torch/bridge/tensors.h"
#include "paceline/torch/checkpointing/checkpointing.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/optimizers/optimizers.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/pipeline/pipeline.h"
#include "paceline/torch/precision/autocast.h"
#include "paceline/torch/server_embedding/server_embedding.h"
#include "paceline/torch/strategy/ensemble.h"
#include "paceline/torch/strategy/sandblaster.h"
#include "paceline/torch/tensor/tensor.h"
