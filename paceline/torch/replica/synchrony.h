// Synchrony: how replicas stay in step with each other. Replicas (replicas.h) tells it what
// autograd and the user do; it decides what is sent, and when a step has ended.
//
// Parameters are counted as in ModelParts: the dense ones, then the sparse ones.
// THREAD: one, that which runs the backward passes. THROWS Error, from every call: what ended the
// communication; misuse as the calls tell.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/base/json_reader.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/parts/parameter_writes.h"
#include "paceline/torch/replica/per_parameter_optimizers.h"
#include "paceline/torch/replica/rank_weight.h"
#include "paceline/torch/replica/step_report.h"
#include "paceline/torch/replica/watch/wait_watch.h"

namespace paceline::replica {

// The state of a Synchrony that goes from step to step beside the model: in a checkpoint it makes
// the next step that of a run which was never interrupted.
struct SynchronyState {
  JsonReader::Json values = JsonReader::Json::object();  // the same on all ranks
  std::vector<std::byte> own;                            // of this rank; empty: it keeps nothing
};

// One that was read again, perhaps by another number of ranks.
struct SavedSynchrony {
  JsonReader::Json values = JsonReader::Json::object();
  int ranks = 1;  // that saved it
  std::function<std::vector<std::byte>(int rank)> own = {};
};

enum class StepEnd : std::uint8_t {
  gradients,   // each grad is that of all ranks: an optimizer may step
  parameters,  // the parameters are those of the next step already
  under_way,   // each parameter is, once before_use() has returned for it
  skipped,     // a gradient of some rank overflowed: no rank has anything to update with
  over,        // no rank has a batch left: nothing has changed
};

struct StepOutcome {
  StepEnd end = StepEnd::gradients;
  int root = 0;                // the lowest rank whose weight is not 0
  double share = 1;            // this rank's weight over the mean of all ranks' weights
  std::string complaint = {};  // misuse in this step; empty: none
  // The program wrote into the parameters of some rank before this step, as all ranks know now.
  bool has_writes = false;
  bool rates_differ = false;  // of the optimizers that steps_by() told, on all ranks alike
};

using Optimizers = std::vector<torch::optim::Optimizer*>;

class Synchrony {
 public:
  virtual ~Synchrony() = default;

  // A gradient is about to be added to the parameter's grad. False drops it.
  virtual bool arriving(std::size_t parameter) = 0;
  // It has been added. `held_elsewhere`: as GradientEvents::accumulated tells (bridge).
  virtual void arrived(std::size_t parameter, bool held_elsewhere) = 0;
  // The memory in which the next gradient shall be computed; null: any.
  virtual std::shared_ptr<void> gradient_memory(std::size_t parameter) = 0;
  // An operator is about to read the parameter. Called after a step that ended under_way, once for
  // each parameter.
  virtual void before_use(std::size_t parameter) = 0;

  // Sets the weight of this rank's batch. Called between steps; it holds until the next call.
  virtual void weigh(const RankWeight& weight) = 0;
  // The loss of this rank's batch, for those that follow it. Between backward() and the end of the
  // step.
  virtual void loss(double) {}
  // While it is true, backward passes only accumulate. Between steps.
  virtual void pause(bool paused) = 0;
  // True from the first gradient that is sent to end_step().
  virtual bool in_step() const = 0;
  // Whether backward made a gradient since the last step ended.
  virtual bool has_gradients() const = 0;

  // `writes` tells what the program writes into the parameters between steps; it outlives this.
  // Called before the first step. Values that a synchrony keeps beside the parameters follow such
  // writes; it notes those that it has followed.
  virtual void follow(ParameterWrites& writes) { static_cast<void>(writes); }

  // The optimizers with which the caller ends the step that is under way, before end_step(null):
  // for a synchrony that has others step by their settings, or compares their rates. THROWS Error
  // (misuse): nobody can; then nothing is sent.
  virtual void steps_by(const Optimizers&) {}
  // Ends the step, together with all ranks. `updates` are optimizers that it steps itself, unless
  // there is a complaint; null: the caller has one.
  virtual StepOutcome end_step(PerParameterOptimizers* updates) = 0;
  // Whether gradients stay this rank's own until end_step(), so that a step may be left out before
  // anything of it was sent.
  virtual bool keeps_gradients() const { return false; }
  // Ends the step in place of end_step(updates): its gradients are gone, and it counts for nothing.
  // All ranks call it in a step, or, where not steps_together(), this one alone does. REQUIRES:
  // keeps_gradients().
  virtual void leave_out_step(PerParameterOptimizers* updates) { static_cast<void>(updates); }
  // Called after a step that ended with gradients: optimizers step that nobody here sees, before
  // the next step.
  virtual void await_own_step() {}
  // Called after a step that ended with gradients, or was skipped: these optimizers have stepped,
  // which took `seconds`, unless it was skipped.
  virtual void stepped(const Optimizers& optimizers, double seconds) = 0;
  // Waits until nothing of the last step is under way on this rank.
  virtual void drain() = 0;
  // Collective, between steps: the same for all ranks, which may be at different steps. Where
  // servers hold the parameters, this replica takes them as all updates have made them.
  virtual void quiesce() { drain(); }
  virtual bool is_under_way() const = 0;
  // Sets the failure that ended the training together: all later calls throw it.
  virtual void fail(std::exception_ptr failure) = 0;

  // The tensors that an optimizer may step.
  virtual std::vector<at::Tensor> leaves() const = 0;
  // The leaves as pieces of the parameters, where ranks divide them; nothing is under way among
  // these ranks between two steps. Null: leaves are whole parameters.
  virtual const ParameterPieces* pieces() const { return nullptr; }
  // Collective, between steps: the leaves were written, and the parameters take their values.
  virtual void leaves_changed() {}
  // The reason why this optimizer must not step here, as a text for users; empty: it may.
  virtual std::string complaint_about(const torch::optim::Optimizer&) const { return {}; }
  // Collective, between steps: all parameters are in memory until the result is gone. Null: they
  // always are.
  virtual std::shared_ptr<void> gathered() { return nullptr; }
  // Whether all parameters are in memory between steps.
  virtual bool holds_parameters() const { return true; }
  // All ranks make each step together, so that they can be asked for something between two steps.
  virtual bool is_lockstep() const = 0;
  // No rank is a step ahead of another.
  virtual bool steps_together() const { return is_lockstep(); }
  // Replicas may differ at the end of a step, and so may the states of their optimizers. If not,
  // buffers follow at the end of each step, and a check may compare the parameters.
  virtual bool may_differ() const = 0;
  // Collective, between steps: writes the model that all ranks share into this one, with equal bits
  // on all ranks. Nothing to do where replicas do not differ.
  virtual void write_consensus() = 0;

  // The state that goes from step to step beside the model. THROWS Error (misuse): in the middle of
  // a step.
  virtual SynchronyState state() = 0;
  // Collective: goes on from what was saved, on any number of ranks. THROWS Error: mismatch, the
  // state is of another model or compression, or the ranks differ in it; io, it is damaged; misuse
  // as above.
  virtual void restore(const SavedSynchrony& saved) = 0;

  // It watches the waits of this training, on all ranks or on none; null: nobody does.
  virtual WaitWatch* watch() { return nullptr; }

  virtual const StepReport& report() const = 0;
  // The messages of the next step, as indices of dense parameters.
  virtual const std::vector<schedule::Bucket>& buckets() const = 0;
};

struct MadeSynchrony {
  std::unique_ptr<Synchrony> synchrony;
  // Replaces it after that step, counted from the beginning of the training. 0: nothing does.
  std::int64_t until_step = 0;
  std::string then = {};  // as DataParallelOptions::synchrony
};

// Makes one for the ranks of `group`, which outlives it, and so do the parts. `job`: of the group;
// null: unknown.
using MakeSynchrony = std::function<MadeSynchrony(const ModelParts& parts, Communicator& group,
                                                  Job* job, const DataParallelOptions& options)>;

}  // namespace paceline::replica
