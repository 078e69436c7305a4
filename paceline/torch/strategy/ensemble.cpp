#include "paceline/torch/strategy/ensemble.h"

#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/broadcast.h"

namespace paceline::strategy {
namespace {

void require_share(const char* option, double value) {
  if (value >= 0 && value <= 1) return;
  throw_misuse(c10::str("EnsembleOptions::", option, " is ", value, ": give a share from 0 to 1"));
}

// Holds a model's tensors, and gives them back.
class OwnModel {
 public:
  explicit OwnModel(torch::nn::Module& model) : model_(model), was_training_(model.is_training()) {
    tensors_ = model.parameters();
    for (const at::Tensor& buffer : model.buffers()) tensors_.push_back(buffer);
    for (const at::Tensor& tensor : tensors_) values_.push_back(tensor.detach().clone());
    model_.eval();
  }
  ~OwnModel() {
    restore();
    model_.train(was_training_);
  }
  OwnModel(const OwnModel&) = delete;
  OwnModel& operator=(const OwnModel&) = delete;

  void restore() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(values_[i]);
  }

 private:
  torch::nn::Module& model_;
  const bool was_training_;
  std::vector<at::Tensor> tensors_, values_;
};

}  // namespace

Ensemble::Ensemble(torch::nn::Module& model, Communicator& group, const EnsembleOptions& options)
    : model_(model), group_(group), options_(options) {
  require_share("relabelled", options.relabelled);
  require_share("weight", options.weight);
  if (!(options.temperature > 0)) {
    throw_misuse(c10::str("EnsembleOptions::temperature is ", options.temperature,
                          ": give a number above 0, such as 2"));
  }
}

at::Tensor Ensemble::mean_probabilities(const at::Tensor& inputs, const Forward& forward,
                                        double temperature, std::int64_t batch) {
  const at::NoGradGuard no_grad;
  OwnModel own(model_);
  at::Tensor sum;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) own.restore();
    broadcast_parameters(model_, group_, rank);
    std::vector<at::Tensor> parts;
    if (inputs.size(0) == 0) continue;  // it still lends its model to the others
    for (const at::Tensor& some : inputs.split(batch))
      parts.push_back(at::softmax(forward(some) / temperature, 1));
    const at::Tensor one = at::cat(parts);
    sum = sum.defined() ? sum.add_(one) : one;
  }
  return sum.defined() ? sum.div_(group_.size()) : at::Tensor();
}

at::Tensor Ensemble::outputs(const at::Tensor& inputs, const Forward& forward) {
  return mean_probabilities(inputs, forward, 1, std::max<std::int64_t>(1, inputs.size(0)));
}

void Ensemble::relabel(const at::Tensor& inputs, const Forward& forward, std::int64_t batch) {
  if (batch < 1)
    throw_misuse(c10::str("Ensemble::relabel: a batch has ", batch, " rows: give 1 or more"));
  const std::int64_t rows = inputs.size(0),
                     count = std::llround(options_.relabelled * static_cast<double>(rows));
  const std::uint64_t seed =
      mix(mix(options_.seed, ++round_), static_cast<std::uint64_t>(group_.rank()));
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::Tensor chosen = std::get<0>(at::randperm(rows, generator).slice(0, 0, count).sort());
  const at::Tensor labels =
      mean_probabilities(inputs.index_select(0, chosen), forward, options_.temperature, batch);
  is_relabelled_ = at::zeros({rows}, at::kBool);
  is_relabelled_.index_fill_(0, chosen, true);
  if (!labels.defined()) {
    teacher_ = at::Tensor();
    return;
  }
  teacher_ = at::zeros({rows, labels.size(1)}, labels.options());
  teacher_.index_copy_(0, chosen, labels);
}

at::Tensor Ensemble::loss(const at::Tensor& logits, const at::Tensor& labels,
                          const at::Tensor& rows) const {
  namespace F = torch::nn::functional;
  const at::Tensor plain =
      F::cross_entropy(logits, labels, F::CrossEntropyFuncOptions().reduction(torch::kNone));
  if (!teacher_.defined()) return plain.mean();
  const double temperature = options_.temperature;
  const at::Tensor weight =
      is_relabelled_.index_select(0, rows).to(logits.scalar_type()) * options_.weight;
  const at::Tensor taught = -(teacher_.index_select(0, rows).to(logits.scalar_type()) *
                              at::log_softmax(logits / temperature, 1))
                                 .sum(1) *
                            (temperature * temperature);
  return ((1 - weight) * plain + weight * taught).mean();
}

}  // namespace paceline::strategy
