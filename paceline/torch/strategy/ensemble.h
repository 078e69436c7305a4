// Ensemble: ranks train apart, and learn from what all of their models say together.
//
// Sun et al., Ensemble-Compression: A New Method for Parallel Training of Deep Neural Networks,
// ECML 2017 (arXiv 1606.00575); Hinton, Vinyals, Dean, Distilling the Knowledge in a Neural
// Network, 2015. Averaging parameters may give a model that is worse than each of them; averaging
// outputs does not: the ensemble's loss is at most the mean of its members' losses. A round:
//
//   DataParallel parallel(model, job, {.synchrony = "none"});
//   strategy::Ensemble ensemble(*model, job.world());
//   ...                                                     // some steps of each rank's own
//   ensemble.relabel(inputs_of_this_rank, forward);         // all ranks together
//   ... loss = ensemble.loss(model->forward(x), y, rows);   // some steps that learn from it
//   outputs = ensemble.outputs(test_inputs, forward);       // all ranks together
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>

#include "paceline/core/collective/group/communicator.h"

namespace paceline::strategy {

struct EnsembleOptions {
  double relabelled = 0.7;  // share of the samples that get the ensemble's labels
  double weight = 0.5;  // of the ensemble's labels in the loss; the rest is that of the true ones
  double temperature = 2;  // softens outputs of teacher and student alike
  std::uint64_t seed = 1;  // which samples are relabelled
};

// THREAD: one, that of the training.
class Ensemble {
 public:
  // The model's outputs (logits, [rows, classes]) for a batch, by the parameters that it has then.
  using Forward = std::function<at::Tensor(const at::Tensor& inputs)>;

  // All ranks hand in models of the same shape. The model and the group outlive this. THROWS Error
  // (misuse): an option is out of its range.
  Ensemble(torch::nn::Module& model, Communicator& group, const EnsembleOptions& options = {});

  // Collective: the mean of the probabilities that the models of all ranks give to these inputs,
  // which are this rank's own (ranks may have different ones). The peers' models pass by one after
  // the other, in evaluation mode; the model is then as it was. COST: each rank sends its model
  // once to all, and computes a forward pass for each rank.
  at::Tensor outputs(const at::Tensor& inputs, const Forward& forward);

  // Collective: asks the ensemble for a random share of this rank's samples ([rows, ...]), whose
  // numbers loss() uses until the next call. `batch`: rows of one forward pass.
  void relabel(const at::Tensor& inputs, const Forward& forward, std::int64_t batch = 500);

  // (1 - m) CE(labels) + m T^2 CE(ensemble's labels at temperature T), the mean over the batch, in
  // which m is `weight` for samples that were relabelled and 0 for others. `labels`: classes;
  // `rows`: the samples' numbers in relabel()'s inputs. Before the first relabel() it is the plain
  // cross entropy.
  at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& rows) const;

 private:
  at::Tensor mean_probabilities(const at::Tensor& inputs, const Forward& forward,
                                double temperature, std::int64_t batch);

  torch::nn::Module& model_;
  Communicator& group_;
  const EnsembleOptions options_;
  std::uint64_t round_ = 0;
  at::Tensor teacher_;        // [rows, classes]; undefined before the first relabel()
  at::Tensor is_relabelled_;  // [rows]
};

}  // namespace paceline::strategy
