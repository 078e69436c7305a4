// The options of a DataParallel (parallel/data_parallel.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/schedule/order/buckets.h"
#include "paceline/torch/replica/optimizer_factory.h"

namespace paceline {

// The treatment of the model's buffers (running statistics and the like) at the end of each step.
enum class BufferMode : std::uint8_t {
  off,  // each rank keeps its own
  // All take those of the lowest rank whose weight is not 0. A buffer of 64 KiB or more travels
  // only where it has changed on some rank.
  broadcast,
  average,  // weighted mean of f32 and f64 buffers; the others as with broadcast
};

struct DataParallelOptions {
  // How replicas are kept in step (docs/strategies/): "synchronous" averages the gradients of each
  // step, which the options of messages, schedule and compression are about; others, such as
  // "local_sgd:period=8", exchange parameters now and then, or keep them on the job's servers, as
  // "ssp:staleness=3" (docs/server/).
  std::string synchrony = "synchronous";
  // Small, so that the first message starts early.
  std::size_t first_bucket_bytes = schedule::BucketCaps{}.first_bytes;
  // Larger: fewer messages; smaller: more overlap.
  std::size_t bucket_bytes = schedule::BucketCaps{}.bytes;
  BufferMode buffers = BufferMode::broadcast;
  // The messages of the first step are those of all steps: buckets in reverse order of
  // registration, nothing observed, nothing broadcast after it. By default they follow, after the
  // first step, the order in which rank 0's gradients came. Either way an order that changes later
  // costs overlap (StepReport::late), never correctness: messages start in the order of the
  // buckets.
  bool static_order = false;
  // So many backward passes make a step: all but the last only accumulate, as under no_sync(). A
  // step that is ended earlier sends what there is.
  int backward_passes_per_step = 1;
  // The seed of the masks of paceline::Dropout, the same on all ranks.
  std::uint64_t dropout_seed = 0;
  // Names of parameters whose gradients are sparse (layout), beside the weights of
  // torch::nn::Embedding and EmbeddingBag with sparse(true), which are known by themselves. Their
  // grad stays sparse: the coalesced mean of all ranks' rows.
  std::vector<std::string> sparse = {};
  // After the first step, after each such number of steps, and at the end (finish(), consensus(),
  // gathered()) all ranks compare their parameters, also frozen ones; a difference is a mismatch
  // that names the rank and the first parameter. A DataParallel that ends without one of these
  // calls prints it. 0: never. COST: reads the parameters once; by 100 less than a thousandth of a
  // step of an mlp.
  int check_replicas_every = 100;
  // Lets libtorch compute gradients right into the memory they travel in, where it can, instead of
  // copying them there (5 % of a step of an mlp). For that libtorch's CPU allocator is replaced, in
  // the whole process and to its end, by one that forwards to the old one.
  bool compute_in_place = true;
  // Decides which gradients travel together, and when (docs/schedules/): `buckets` as above, or
  // another policy: barrier, wait_free, merged, priority, general. merged, priority and general
  // measure the links while the first steps go by in buckets, and plan; they plan again when steps
  // take another time for long. All give the same bits.
  std::string schedule = "buckets";
  // Decides how gradients are compressed (docs/compression/): a method and its settings, as "fp16"
  // or "top_k:ratio=0.01"; gradients are f32. The first steps, until the schedule is planned, go
  // uncompressed. With several values of one setting, as in "top_k:ratio=0.01/0.001/0.1", each
  // tensor has one of them, or travels whole: those that end a step soonest while all tensors
  // together lose no more than by the first value. Tensors whose gradients change fast are
  // compressed least; the choice is made again every choose_every steps
  // (docs/compression/menus.md).
  std::string compression = "none";
  // The gradients are averaged by "collective", the ranks among themselves; by "server", those of
  // the job (`paceline run --servers N`; docs/guide/server.md), with the same bits; or by what is
  // forecast to be faster: "automatic".
  std::string aggregate = "collective";
  // Makes the optimizers that step() without an argument uses, one for each parameter. With them
  // the schedules priority and general may cross the barrier: step() returns before all gradients
  // are back, and each parameter is updated when an operator first reads it. (What reads its memory
  // past libtorch's operators calls finish() before.) Gradients are consumed by such steps:
  // zero_grad() is not needed, and clip_grad_norm() not possible. optimizer_factory.h tells how to
  // give groups of parameters their own options, and all of them a learning-rate schedule.
  OptimizerFactory optimizer = {};
  // The types in which the model computes (docs/guide/precision.md): "none", its own; "o1", what
  // libtorch chooses for each operator within autocast(); "o2", 16 bits except norms, while the
  // optimizer steps parameters() of float32. They have settings, as in
  // "o2:dtype=fp16,scale=65536,interval=2000"; bf16 is the default. With fp16 backward(loss) scales
  // the loss, and a step in which a gradient of any rank is not finite is skipped by all.
  std::string precision = "none";
  // step() and synchronize() scale the mean gradients so that their global norm is at most this
  // (clip_grad_norm.h). 0: not. With it, and with o2 or fp16, no schedule crosses the barrier.
  double max_grad_norm = 0;
  // Decides what becomes of a step in which a gradient of some rank is NaN or infinite: empty,
  // nobody looks, and only fp16 and compressions leave such steps out; "throw", all ranks throw an
  // error that names the first parameter and its rank, before anything is updated; "skip", no rank
  // updates, as if the step had not been. Where ranks do not wait for each other (asp, async_gossip
  // and their kin) a rank throws, or leaves its own step out, alone. With it no schedule crosses
  // the barrier. COST, unless empty: reads each gradient twice; with zero_stage, layers that are
  // split, or a synchrony whose gradients do not travel, one small all_reduce a step.
  std::string non_finite = {};
  // So many steps in a row may be left out, for whatever reason; then the run ends by name.
  int non_finite_limit = 100;
  // Divides the state among the ranks (ZeRO; docs/guide/sharding.md): 0 nothing; 1 the optimizer's
  // state; 2 gradients too; 3 parameters too. Above 0 the optimizer is one over
  // DataParallel::parameters(). The bits are those of stage 0.
  int zero_stage = 0;
  // The number of units of the model whose parameters are gathered ahead of their use, at stage 3.
  int zero_prefetch = 1;
};

}  // namespace paceline
