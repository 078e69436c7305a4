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
#include <torch/ordered_dict.h>

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/core/schedule/order/buckets.h"
#include "paceline/torch/precision/autocast.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/optimizer_factory.h"
#include "paceline/torch/replica/step_report.h"

namespace paceline {

namespace replica {
struct Parameter;
struct RankWeight;
class Consensus;
class Replicas;
}  // namespace replica

namespace parallel {
struct TrainedParts;
class LayersOverRanks;
}  // namespace parallel

namespace precision {
struct PrecisionChoice;
class HalvedTensors;
}  // namespace precision

template <typename Loader>
class Join;

// THREAD: the one that makes it, or called rebind() last, which also runs the backward passes: in
// another one libtorch's operators have other bits, so weight(), no_sync(), backward passes,
// synchronize() and step() are refused there. The model may live longer than this; the Job must.
// Guards that this hands out may live longer, too: they end with it, and change nothing after.
class DataParallel {
 public:
  // Compares the model with that of the other ranks and copies rank 0's parameters and buffers to
  // all. Parameters that do not require a gradient now are left out for good. THROWS Error:
  // mismatch that names the first difference, also where ranks hold different parts of a layer that
  // parallelize() split; misuse for parameters that are not of a floating type in host memory, and
  // for options out of their range. After a failure, and after this has ended, the model has the
  // types that it had. SyncBatchNorm layers compute over the same ranks from here on.
  DataParallel(torch::nn::Module& model, Job& job, const DataParallelOptions& options = {});
  // On a group of its own.
  DataParallel(torch::nn::Module& model, Communicator& group,
               const DataParallelOptions& options = {});
  // The model's layers may be split by parallelize(): the ranks that differ along tp alone are one
  // replica, and gradients are averaged over the axes dp and cp of the mesh, which outlives this.
  // THROWS Error (misuse): tp is above 1, and nothing is split.
  DataParallel(torch::nn::Module& model, DeviceMesh& mesh, const DataParallelOptions& options = {});
  // Parameters without a model, under the names that messages shall use
  // (replica/parts/model_parts.h).
  DataParallel(const std::vector<replica::Parameter>& parameters, Job& job,
               const DataParallelOptions& options = {});
  DataParallel(const std::vector<replica::Parameter>& parameters, Communicator& group,
               const DataParallelOptions& options = {});
  // The same for torch::nn::Sequential, std::shared_ptr<Model> and the like.
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

  // Sets the number of samples in this rank's batch: with a loss that is the mean over the own
  // batch, the result is the mean over the global batch. Call it before the forward pass; it holds
  // until the next call. All ranks call it or none does (then all weigh 1). 0: this rank has no
  // batch and takes part as a shadow; it may skip forward and backward and must call step(). In a
  // step of several backward passes, whose losses are divided by their number, it is called once
  // before the first for all their samples, or before each: then they add up, and each pass counts
  // by its own. THROWS Error (misuse): negative or not finite, in the middle of a step, or in a way
  // that has no sure meaning.
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
  // frozen when this was made or is not the model's. THROWS Error (mismatch), before anything is
  // updated: the learning rate differs from rank to rank, where replicas are held equal.
  bool step(torch::optim::Optimizer& optimizer);

  // The same with the optimizers of DataParallelOptions::optimizer; the gradients are gone
  // afterwards. Before each of them steps, `prepare` may set what has changed, such as the learning
  // rate; it may be called as late as in the next forward pass. After synchronize(), and perhaps
  // clip_grad_norm(), without a backward() since, it updates with the gradients as they are. THROWS
  // Error (misuse): there are none.
  using Prepare = PrepareOptimizer;
  bool step(Prepare prepare = {});
  // Waits until the updates of the last step are done on this rank. Where all ranks call it after
  // the same step, as at the end of a training, it compares the replicas (not again within ten
  // steps; DataParallelOptions::check_replicas_every = 0 turns it off). With parameters on servers
  // (docs/server/) all ranks call it, at whatever steps they are: nobody waits for one that is in
  // it, and when all are the replicas become equal, with all updates. THROWS Error: mismatch, the
  // replicas differ.
  void finish();

  // Walks `loader` (begin() and end()) as long as any rank has a batch left: join.h, which has to
  // be included, tells how.
  template <typename Loader>
  Join<Loader> join(Loader&& loader);

  // Scales the mean gradients so that their global norm is at most `max_norm`, and returns what it
  // was (clip_grad_norm.h). To be called between synchronize() and optimizer.step(). THROWS Error
  // (misuse): in the middle of a step; a norm that is NaN or infinite, on all ranks alike, which
  // then have no gradients of this step any more.
  double clip_grad_norm(double max_norm);

  // The tensors that an optimizer steps: the model's trained parameters; with the precision o2
  // masters of float32 in place of those that the model has in 16 bits; with
  // DataParallelOptions::zero_stage above 0 the segments of them that this rank owns, each of one
  // dimension, for an optimizer that treats each element by itself. They live as long as this.
  std::vector<at::Tensor> parameters() const;
  // Those of one parameter of the model, to make groups of options: one tensor, or none where this
  // rank owns nothing of it. THROWS Error (misuse): there is none of this name.
  std::vector<at::Tensor> parameters(const std::string& name) const;

  // While it lives, the model's parameters are all in memory, up to date: to evaluate on some
  // ranks, to save, to read past libtorch's operators. All ranks call it, between steps, and end it
  // before the next. At zero_stage 0 it does nothing.
  class Gathered {
   public:
    Gathered(Gathered&&) noexcept = default;
    Gathered& operator=(Gathered&&) = delete;

   private:
    friend class DataParallel;
    explicit Gathered(std::shared_ptr<void> held) : held_(std::move(held)) {}
    std::shared_ptr<void> held_;
  };
  [[nodiscard]] Gathered gathered();

  // Saves the model that all replicas stand for, as torch::save(model, file) does in one process:
  // `torch::load(model, file)` reads it, also in a program without Paceline. All ranks call it,
  // between steps; rank 0 alone writes, and the file is there as a whole or as it was. Tensors are
  // whole and have the types of the model that was handed in: with the precision o2 float32, as the
  // masters are. THROWS Error, on all ranks: io, the file cannot be written; misuse, this was made
  // without a model, or in the middle of a step. COST: memory for whole parameters on each rank.
  void save(const std::string& file);
  // The same tensors by name, parameters first, on every rank: copies.
  torch::OrderedDict<std::string, at::Tensor> state();

  // loss.backward(), with the loss scaled where the precision has fp16. It may be called several
  // times in a step that accumulates.
  void backward(const at::Tensor& loss);
  // While it lives, operators of this thread compute as the precision o1 tells
  // (precision/autocast.h); with others it changes nothing. The forward pass and the loss stand in
  // it.
  [[nodiscard]] Autocast autocast() const;
  // The type that the model's inputs of floating type have: 16 bits with o2, else as they are given
  // by the model's own parameters.
  at::ScalarType input_type() const;

  // Goes on with another group of ranks, such as the next generation of a job: compares and
  // equalises the models as the constructor does, from rank `root` of the new group. The parameters
  // and buffers are those that this was made with, in their present shape and type (also after
  // model.to(dtype)). A step that was under way is given up: its gradients are dropped. The weight
  // is again 1. Updates of the step before that are under way are made first, where the old group
  // can. Of ranks that saw a failure some may have completed the step that others gave up:
  // the root's parameters count, so go on with the root's number of steps.
  void rebind(Communicator& group, int root = 0);

  // The mean of a number over all ranks, weighted as their gradients are: an f64 scalar with the
  // same bits on all ranks, so that all of them take the same branch by it. One small all_reduce,
  // which all ranks call; at any time, also between backward() and the end of the step. A rank of
  // weight 0 may hand in an undefined tensor; where all weights are 0 it is NaN. THROWS Error
  // (misuse): more than one number; ranks do not make each step together (async_gossip).
  at::Tensor mean(const at::Tensor& value);

  // Tells the loss of this rank's batch, after backward(): the synchrony adacomm follows it, others
  // leave it alone.
  void loss(double loss);
  // Goes on with another synchrony (DataParallelOptions::synchrony), from the consensus of the
  // present one. Between steps; all ranks call it. Optimizers keep their states; where the new one
  // holds replicas equal, those of DataParallelOptions::optimizer, or of the next step(optimizer)
  // of each, take the mean of theirs, counts of steps too. THROWS Error: misuse, as the constructor
  // does, or in the middle of a step; mismatch, texts that differ. Nothing has changed then.
  void synchrony(const std::string& text);

  // While it lives, the model holds what all replicas stand for, with equal bits on all ranks:
  // their mean weighted by the samples since the last exchange, or what the synchrony's page says.
  // Its end gives the replica back. All ranks call it, between steps: to evaluate, to save, at the
  // end of a training. With a synchrony that holds replicas equal it changes nothing.
  class Consensus {
   public:
    Consensus(Consensus&&) noexcept;
    Consensus& operator=(Consensus&&) = delete;
    ~Consensus();

   private:
    friend class DataParallel;
    explicit Consensus(replica::Replicas& replicas);
    std::unique_ptr<replica::Consensus> held_;
  };
  [[nodiscard]] Consensus consensus();

  // While it lives, backward passes only accumulate on this rank. The first one afterwards sends
  // the sum.
  class NoSync {
   public:
    NoSync(NoSync&& other) noexcept
        : parallel_(std::exchange(other.parallel_, nullptr)), life_(std::move(other.life_)) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class DataParallel;
    explicit NoSync(DataParallel& parallel) : parallel_(&parallel), life_(parallel.life()) {}
    DataParallel* parallel_;
    std::weak_ptr<const void> life_;  // of it
  };
  [[nodiscard]] NoSync no_sync();

  // The buckets of the next step, as indices into the parameters with dense gradients.
  const std::vector<schedule::Bucket>& buckets() const;
  const StepReport& last_step() const;

  // For other rooms of Paceline, such as checkpoint.
  replica::Replicas& replicas();
  torch::nn::Module* model() const;  // null: it was made of parameters

 private:
  friend class JoinedLoop;
  friend class DistributedOptimizer;
  std::weak_ptr<const void> life() const;  // expires when this ends
  replica::RankWeight said_weight() const;
  void restore_weight(replica::RankWeight weight);
  // THROWS Error (misuse): `optimizer` would step a parameter whose gradient is not averaged.
  void require_own_gradients(const torch::optim::Optimizer& optimizer) const;

  // `model`: null: there are parameters alone. `mesh`: null: each rank of the group is a replica.
  DataParallel(parallel::TrainedParts trained, Communicator& group, Job* job,
               const DataParallelOptions& options, torch::nn::Module* model = nullptr,
               DeviceMesh* mesh = nullptr);

  torch::nn::Module* const model_;
  DeviceMesh* const mesh_;
  const std::unique_ptr<const precision::PrecisionChoice> precision_;
  // They end after the replicas, which look after gradients.
  const std::unique_ptr<precision::HalvedTensors> halved_;
  const std::unique_ptr<replica::Replicas> replicas_;
  std::unique_ptr<parallel::LayersOverRanks> layers_;  // null: no model
};

}  // namespace paceline
