// DataParallel: synchronous data parallel training (docs/guide/data_parallel.md).
//
//   paceline::Job job = paceline::init();
//   paceline::DataParallel parallel(model, job);
//   for (auto& batch : loader) {
//     optimizer.zero_grad();            // either form, or none at all: then gradients accumulate
//     parallel.weight(batch.size());    // only needed where ranks have batches of different sizes
//     loss(model, batch).backward();    // all_reduces start while backward still computes
//     parallel.step(optimizer);         // wait for the mean gradient, then optimizer.step()
//   }
//
// To touch the mean gradient (clipping, logging) call synchronize(), then optimizer.step()
// yourself. Where ranks may run out of batches before others: join.h.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/collective/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/parallel/optimizer_factory.h"

namespace paceline {

namespace parallel {
struct Parameter;
struct RankWeight;
}  // namespace parallel

template <typename Loader>
class Join;

// What happens to the model's buffers (running statistics and the like) at the end of each step.
enum class BufferMode : std::uint8_t {
  off,        // each rank keeps its own
  broadcast,  // all take those of the lowest rank whose weight is not 0
  average,    // weighted mean of f32 and f64 buffers; the others as with broadcast
};

struct DataParallelOptions {
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
  // Names of parameters whose gradients are sparse (layout), beside the weights of
  // torch::nn::Embedding and EmbeddingBag with sparse(true), which are known by themselves. Their
  // grad stays sparse: the coalesced mean of all ranks' rows.
  std::vector<std::string> sparse = {};
  // After the first step and every so many steps all ranks compare their parameters, also frozen
  // ones; a difference is a mismatch that names the rank and the first parameter. 0: never. COST:
  // reads the parameters once; by 100 less than a thousandth of a step of an mlp.
  int check_replicas_every = 100;
  // Lets libtorch compute gradients right into the memory they travel in, where it can, instead of
  // copying them there (5 % of a step of an mlp). For that libtorch's CPU allocator is replaced, in
  // the whole process and to its end, by one that forwards to the old one.
  bool born_in_place = true;
  // Which gradients travel together, and when (docs/schedules/): `buckets` as above, or a policy:
  // barrier, wait_free, merged, priority, general. merged, priority and general see the first steps
  // go by in buckets, measure the links, and plan; anew when steps take another time for long. All
  // give the same bits.
  std::string schedule = "buckets";
  // What becomes of gradients on their way (docs/compression/): a method and its settings, as
  // "fp16" or "top_k:ratio=0.01"; of f32. The first steps, until the schedule is planned, go
  // uncompressed. With several values of one setting, as in "top_k:ratio=0.01/0.001/0.1", each
  // tensor has the one, or travels whole, that ends a step soonest while all lose no more than by
  // the first; those whose gradients change fast are compressed least; chosen anew every
  // choose_every steps (docs/compression/menus.md).
  std::string compression = "none";
  // Makes the optimizers that step() without an argument uses, one for each parameter. With them
  // the schedules priority and general may cross the barrier: step() returns before all gradients
  // are back, and each parameter is updated when an operator first reads it. (What reads its memory
  // past libtorch's operators calls finish() before.) Gradients are consumed by such steps:
  // zero_grad() is not needed, and clip_grad_norm() not possible. optimizer_factory.h tells how to
  // give groups of parameters their own options, and all of them a learning-rate schedule.
  OptimizerFactory optimizer = {};
};

// What the last step did on this rank.
struct StepReport {
  int buckets = 0;               // all_reduces of this step
  int launched_in_backward = 0;  // of these, started while backward still ran
  int gradients = 0;             // that backward made here
  int gradients_at_first_launch =
      0;  // made before the first all_reduce started; less than `gradients`: they overlapped
  int copied = 0;           // gradients that were not computed right into their message's memory
  int late = 0;             // gradients that came after one that stands later in the buckets
  int used = 0;             // parameters that some rank of weight > 0 used
  int shadows = 0;          // ranks of weight 0
  double total_weight = 0;  // of all ranks
  std::int64_t step = 0;    // 1 for the first
  int plans = 0;            // how often the schedule was planned until then
  int looks = 0;  // how often a compression with a menu has looked at gradients until then
  // Bytes of the gradients that were compressed, and of what this rank brought to exchanges for
  // them.
  double coded_bytes = 0, wire_bytes = 0;
  // A gradient of some rank overflowed where it was compressed, or was NaN: the step was left out.
  bool overflowed = false;
  double waited_seconds = 0;     // that this rank waited for gradients, since the step before
  double under_way_seconds = 0;  // in which gradients were under way
};

// THREAD: one, that which also runs the backward passes. The model may live longer than this; the
// Job must.
class DataParallel {
 public:
  // Compares the model with that of the other ranks and copies rank 0's parameters and buffers to
  // all. Parameters that do not require a gradient now are left out for good. THROWS Error:
  // mismatch that names the first difference; misuse for parameters that are not of a floating type
  // in host memory. SyncBatchNorm layers compute over the same ranks from here on.
  DataParallel(torch::nn::Module& model, Job& job, const DataParallelOptions& options = {});
  // On a group of its own. Gradients lie in ordinary memory then, which costs the collectives a
  // copy more.
  DataParallel(torch::nn::Module& model, Communicator& group,
               const DataParallelOptions& options = {});
  // Parameters without a model, under the names that messages shall use (parallel/model_parts.h).
  DataParallel(const std::vector<parallel::Parameter>& parameters, Job& job,
               const DataParallelOptions& options = {});
  DataParallel(const std::vector<parallel::Parameter>& parameters, Communicator& group,
               const DataParallelOptions& options = {});
  // Also for torch::nn::Sequential, std::shared_ptr<Model> and the like.
  template <typename Holder, typename Where>
  requires requires(Holder& holder) {
    { *holder } -> std::convertible_to<torch::nn::Module&>;
  }
  DataParallel(Holder& holder, Where& where, const DataParallelOptions& options = {})
      : DataParallel(static_cast<torch::nn::Module&>(*holder), where, options) {}

  // Gradients of the model leave the job's memory (they are copied out), so that the model can be
  // used on. Waits for updates that are under way.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // How many samples this rank's batch stands for: with a loss that is the mean over the own batch,
  // the result is the mean over the global batch. Said before the forward pass; holds until it is
  // said again. All ranks say it or none (then all weigh 1). 0: this rank has no batch and takes
  // part as a shadow; it may skip forward and backward and must call step(). THROWS Error (misuse):
  // negative or not finite, or in the middle of a step.
  void weight(double samples);

  // Ends the step: afterwards the gradient of every parameter that any rank used is the weighted
  // mean over all ranks, a rank that did not use it counting as zero (or as what its grad held
  // before, where gradients accumulate); the grad of a parameter that no rank used is as it was.
  // The bits are the same on all ranks. False when the weights of all ranks are 0: nobody has a
  // batch left, nothing changed, and the loop is over. THROWS Error: what ended the communication;
  // misuse when parameters or gradients were changed since backward(), when a parameter was loaded,
  // converted or unfrozen since this was made, or when no rank made a gradient though weights are
  // above 0; the step has ended then, and the next one may be a good one.
  bool synchronize();

  // synchronize(), then optimizer.step() unless that told false or the step overflowed. Returns
  // what synchronize() did. THROWS Error (misuse), after synchronize() and before anything is
  // updated: the optimizer has a parameter with a gradient that is not averaged, because it was
  // frozen when this was made or is not the model's.
  bool step(torch::optim::Optimizer& optimizer);

  // The same with the optimizers of DataParallelOptions::optimizer; the gradients are gone
  // afterwards. Before each of them steps, `prepare` may set what has changed, such as the learning
  // rate; it may be called as late as in the next forward pass. After synchronize(), and perhaps
  // clip_grad_norm(), without a backward() since, it updates with the gradients as they are. THROWS
  // Error (misuse): there are none.
  using Prepare = std::function<void(torch::optim::Optimizer& optimizer)>;
  bool step(Prepare prepare = {});
  // Until the updates of the last step are done on this rank.
  void finish();

  // Walks `loader` (begin() and end()) as long as any rank has a batch left: join.h, which has to
  // be included, tells how.
  template <typename Loader>
  Join<Loader> join(Loader&& loader);

  // Scales the mean gradients so that their global norm is at most `max_norm`, and returns what it
  // was (clip_grad_norm.h). To be called between synchronize() and optimizer.step(). THROWS Error
  // (misuse): in the middle of a step; not finite.
  double clip_grad_norm(double max_norm);

  // Goes on with another group of ranks, such as the next generation of a job: compares and
  // equalises the models as the constructor does, from rank `root` of the new group. The parameters
  // and buffers are those that this was made with, in their present shape and type (also after
  // model.to(dtype)). A step that was under way is given up: its gradients are dropped. The weight
  // is again 1. Of ranks that saw a failure some may have completed the step that others gave up:
  // the root's parameters count, so go on with the root's number of steps.
  void rebind(Communicator& group, int root = 0);

  // What goes from step to step beside the model and the caller's optimizer: what compression keeps
  // (residuals, momenta), the schedule once it is planned, the optimizers of
  // DataParallelOptions::optimizer. Each rank has its own. Between steps. With model and optimizer
  // loaded too, the next step has the bits that it would have had in the run that was saved. COST:
  // memory for a copy of what compression keeps, twice for a moment.
  void save(torch::serialize::OutputArchive& archive) const;
  // Collective: what this rank has saved, on the same number of ranks where compression keeps
  // anything. Another schedule plans anew, and goes on with what compression kept. Without it all
  // begins from zero. THROWS Error: mismatch, it is of another rank, model or compression, or not
  // of the same step on all ranks; misuse, there is none in the archive; io, it is damaged.
  void load(torch::serialize::InputArchive& archive);

  // While it lives, backward passes only accumulate on this rank. The first one afterwards sends
  // the sum.
  class NoSync {
   public:
    NoSync(NoSync&& other) noexcept : parallel_(std::exchange(other.parallel_, nullptr)) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class DataParallel;
    explicit NoSync(DataParallel& parallel) : parallel_(&parallel) {}
    DataParallel* parallel_;
  };
  [[nodiscard]] NoSync no_sync();

  // The buckets of the next step, as indices into the parameters with dense gradients.
  const std::vector<schedule::Bucket>& buckets() const;
  const StepReport& last_step() const;

 private:
  friend class JoinedLoop;
  friend class DistributedOptimizer;
  parallel::RankWeight said_weight() const;
  void restore_weight(parallel::RankWeight weight);
  // THROWS Error (misuse): `optimizer` would step a parameter whose gradient is not averaged.
  void require_own_gradients(const torch::optim::Optimizer& optimizer) const;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

// With these, torch::save(parallel, file) and torch::load(parallel, file) work as for a module.
torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const DataParallel& parallel);
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           DataParallel& parallel);

}  // namespace paceline
