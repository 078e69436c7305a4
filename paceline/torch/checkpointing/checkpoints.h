// Checkpoints: saves a training so that it can go on after its end, however that came
// (docs/guide/checkpoints.md; the files are described in docs/checkpoint_format.md).
//
//   paceline::Checkpoints checkpoints(job, "runs/a", {.every = 200, .resume = resume});
//   checkpoints.add("model", *model);
//   checkpoints.add("optimizer", optimizer);    // not with DataParallelOptions::optimizer
//   checkpoints.add("parallel", parallel);
//   checkpoints.add("data", sampler);           // data::DistributedSampler
//   checkpoints.add("rate", scheduler);         // torch::optim::StepLR and its kin
//   checkpoints.add("mine", [&](paceline::CheckpointFields& fields) {
//     fields("best", best);
//     fields("ema", ema);
//   });
//   for (std::int64_t step = checkpoints.resume(); step < steps && !checkpoints.stopping();) {
//     ...
//     parallel.step(optimizer);
//     checkpoints.save_if_due(++step);
//   }
//   return checkpoints.finish();
//
// A save copies this rank's share of the tensors and lets the training go on; threads of all ranks
// write, and rank 0 commits when all have. SIGTERM, SIGINT (Ctrl-C) or SIGHUP to any rank: all
// ranks save the same step, and stopping() is true. SIGUSR1: they save, and go on.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "paceline/core/job/job.h"
#include "paceline/core/server/server.h"
#include "paceline/torch/checkpointing/checkpoint_fields.h"
#include "paceline/torch/checkpointing/checkpoint_options.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/parallel/data_parallel.h"
#include "paceline/torch/pipeline/pipeline.h"

namespace paceline {

// All ranks make one, add the same things and call its methods in the same order. THREAD: one, that
// of the training. The models, optimizers and variables that are
// added must outlive it.
class Checkpoints {
 public:
  // The directory is made if it is not there (not its parent); all hosts of the job must share it.
  // Until this ends it belongs to the job. THROWS Error: misuse, it holds checkpoints, belongs to
  // another job, or not all ranks see the same one; io, it cannot be written to.
  Checkpoints(Job& job, std::string directory, const CheckpointOptions& options = {});
  // A save that is under way is lost, unless finish() was called.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Names are of letters, digits, '.', '_' and '-', each once; "random" is taken (torch's streams
  // of random numbers are always saved), and so is "rank_steps". THROWS Error (misuse): another name;
  // after resume().
  //
  // They refuse at once, by name, what a save could not hold: complex or sparse tensors, an
  // optimizer of another type.
  //
  // Parameters and buffers, under their names in the model, tied ones once.
  void add(std::string name, const torch::nn::Module& model);
  template <typename Holder>
  requires requires(Holder& holder) {
    { *holder } -> std::convertible_to<torch::nn::Module&>;
  }
  void add(std::string name, Holder& holder) {
    add(std::move(name), static_cast<const torch::nn::Module&>(*holder));
  }
  // SGD, Adam, AdamW, RMSprop, Adagrad, LARS, LAMB or SVRG: state and options, by the names that
  // its parameters have in the models.
  void add(std::string name, torch::optim::Optimizer& optimizer);
  // The state that it keeps from step to step: residuals of compression, the plan of the schedule,
  // weights; and the optimizers of DataParallelOptions::optimizer, as item "optimizer".
  void add(std::string name, DataParallel& parallel);
  // All that goes on in a pipeline: the items "model", "optimizer" and "parallel", which are those
  // of a program that adds a model, its optimizer and a DataParallel, so that each goes on from the
  // other, on any layout. Under another name than "pipeline" they are "<name>.model" and so on.
  void add(std::string name, Pipeline& pipeline);
  // The place in the data: the loader's next begin() goes on with the samples that no rank has
  // been given in that epoch, also on another number of ranks. Of a loader with workers the
  // sampler has to know how many batches it takes ahead: DistributedSampler::taken_ahead().
  // data::GlobalBatches keeps no place: it gives the batch of a step.
  void add(std::string name, data::DistributedSampler& sampler);
  // The count of a schedule of learning rates, and the rates that it has made. What a class of your
  // own keeps beside them is for fields.
  void add(std::string name, torch::optim::LRScheduler& scheduler);
  // The best metric and the counts; the rates stand in the optimizer, which must be an item too.
  void add(std::string name, torch::optim::ReduceLROnPlateauScheduler& scheduler);
  // The rows that servers store of a sparse table, with the state of its rule: ranks fetch them,
  // each some, and put them back on any number of servers. While a save fetches them all ranks wait
  // for each other. COST: memory for this rank's part of the rows.
  void add(std::string name, server::SparseTable& table);
  // Values of the program's own: rank 0's are saved, and all ranks load them.
  template <typename Visit>
  requires(!requires(Visit & visit) {
    { *visit } -> std::convertible_to<torch::nn::Module&>;
  } && std::invocable<Visit&, CheckpointFields&>) void add(std::string name, Visit visit) {
    add_fields(std::move(name), std::move(visit));
  }

  // Loads the newest checkpoint of which every byte verifies, and returns its step (this rank's
  // own, where ranks did not wait for each other); 0 where there is none, or where this run does
  // not resume. Call it once, after everything was added. A damaged checkpoint is told on stderr,
  // with file and tensor, and the next older one is taken. On another number of ranks the tensors
  // that all ranks share are loaded as they are, residuals are divided anew, and rank r takes the
  // own tensors of the former rank r modulo their number. A program that adds nothing but models
  // takes these out of any checkpoint. THROWS Error, on all ranks: misuse that names the first
  // thing in which the program differs from the one that saved, or says that all checkpoints are
  // damaged; io, which names a file or folder that cannot be read now and the system's reason,
  // because what is not read may be whole.
  std::int64_t resume();

  // Ends step number `step` (counted from 1): saves if it is due or was asked for. Copies this
  // rank's share and returns; if the save before is still under way, waits for it first. A save
  // that fails is told on stderr, and leaves the newest checkpoint as it is. THROWS Error:
  // mismatch, the replicas are no longer equal; what ended the communication. COST: with nothing
  // due, one message of 16 bytes, for which nobody waits.
  // If the synchrony lets ranks train without waiting for each other, `step` is the rank's own,
  // and may be another one on each; rank 0's decides what is due. All ranks then stand still at the
  // end of their steps until the save is written, which is named by the largest of these steps, or
  // by the number after that of the save before.
  void save_if_due(std::int64_t step);
  // Saves now, and waits. False: it failed, as was told on stderr.
  bool save(std::int64_t step);
  // Call it before operations that all ranks make, such as the mean of a figure or
  // DataParallel::consensus(), where the synchrony lets ranks train without waiting for each other:
  // it waits until all ranks rest, and saves with those that still train. Elsewhere it does
  // nothing.
  void wait_for_all_ranks();
  // Whether the loop shall end: a rank was told to stop, and this step was saved.
  bool stopping() const;
  // Waits for the save under way. Returns the exit code of the program: 0, or 143 after SIGTERM and
  // the other signals that stop it.
  int finish();

 private:
  void add_fields(std::string name, std::function<void(CheckpointFields&)> visit);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
