#include "paceline/torch/pipeline/asynchronous_work.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::pipeline {
namespace {

// Backward passes from outputs that require a gradient.
void run_backward(const Tensors& outputs, const Tensors& gradients) {
  Tensors roots, given;
  std::size_t next = 0;
  for (const at::Tensor& output : outputs) {
    if (!crosses_back(output)) continue;
    const at::Tensor& gradient = gradients[next++];
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    given.push_back(gradient);
  }
  if (!roots.empty()) torch::autograd::backward(roots, given);
}

std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options_of(
    const torch::optim::Optimizer& optimizer) {
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  for (const auto& group : optimizer.param_groups()) options.push_back(group.options().clone());
  return options;
}

void set_options(torch::optim::Optimizer& optimizer,
                 const std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>& options) {
  for (std::size_t i = 0; i < options.size(); ++i)
    optimizer.param_groups()[i].set_options(options[i]->clone());
}

}  // namespace

AsynchronousWork::AsynchronousWork(MadeStages& stages, Loss loss, const CutShapes& shapes,
                                   const VersionRule& rule, const Turns& turns)
    : stages_(stages),
      placement_(stages.order().placement()),
      chunk_(stages.chunks().front()),
      turns_(turns),
      optimizer_(stages.optimizer_of(chunk_.stage)),
      loss_(std::move(loss)),
      shapes_(shapes) {
  if (chunk_.parallel) versions_.emplace(*chunk_.module, rule, chunk_.stage, turns.replica);
}

void AsynchronousWork::hand_in(MicroBatches batch, const PrepareOptimizer& prepare,
                               std::optional<double> weight) {
  if (optimizer_ != nullptr) {
    if (prepare) prepare(*optimizer_);
    if (next_batch_ % turns_.replicas == 0)
      options_[next_batch_ / turns_.replicas] = options_of(*optimizer_);
  }
  const std::size_t parts = batch.samples.size();
  first_samples_ = batch.samples.front();
  if (!is_own(next_batch_)) {
    ++next_batch_;
    next_micro_batch_ += static_cast<int>(parts);
    return;
  }
  Batch& taken = batches_[next_batch_];
  taken.samples = batch.sum();
  taken.loss.weight = weight;
  for (std::size_t i = 0; i < parts; ++i)
    passing_[next_micro_batch_++] = {
        .batch = next_batch_,
        .samples = batch.samples[i],
        .number = static_cast<std::int64_t>(static_cast<std::size_t>(stages_.steps()) * parts + i),
        .inputs = std::move(batch.data[i]),
        .outputs = {},
        .target = std::move(batch.target[i])};
  ++next_batch_;
}

AsynchronousWork::BatchLoss AsynchronousWork::take_loss(int batch) {
  return batches_.extract(batch).mapped().loss;
}

void AsynchronousWork::restart() {
  if (versions_) {
    const int replicas = turns_.replicas, rounds = (next_batch_ + replicas - 1) / replicas;
    const int in_last = next_batch_ - (rounds - 1) * replicas;
    if (is_update_open_) end_update(begun_updates_ == rounds ? in_last : replicas);
    if (begun_updates_ < rounds && replicas > 1) {  // it has no batch in the last round
      versions_->restart();                         // no older version is needed
      chunk_.parallel->weight(0);
      ++begun_updates_;
      end_update(in_last);
    }
    begun_updates_ = 0;
    options_.clear();
  }
  next_batch_ = next_micro_batch_ = 0;
  batches_.clear();
  arriving_.clear();
  if (versions_) versions_->restart();
}

void AsynchronousWork::train(bool on) {
  if (versions_) versions_->train(on);
}

// A gradient has the shape of what it is the gradient of, which the next stage takes; the last one
// of the tensors is the loss.
std::vector<Buffer> AsynchronousWork::room(const Transfer& transfer) {
  const bool is_forward = transfer.kind == Kind::forward;
  const int cut = is_forward ? transfer.stage : transfer.stage + 1;
  Tensors& tensors = arriving_[transfer];
  const auto passing = passing_.find(transfer.micro_batch);
  // The next batch is not here yet. If it has other shapes, the message is one of send_unused().
  const std::int64_t samples = passing == passing_.end() ? first_samples_ : passing->second.samples;
  for (const TensorShape& shape : shapes_.at({cut, samples}))
    if (is_forward || at::isFloatingType(shape.type)) tensors.push_back(tensor_of(shape));
  if (!is_forward) tensors.push_back(tensor_of({.type = at::kDouble, .sizes = {1}}));
  std::vector<Buffer> room;
  for (const at::Tensor& one : tensors) room.push_back(buffer_of(one));
  return room;
}

void AsynchronousWork::make_unused(const Transfer& transfer) {
  Tensors& tensors = departing_[transfer];
  for (const TensorShape& shape : shapes_.at({transfer.stage, first_samples_}))
    tensors.push_back(tensor_of(shape).zero_());
}

std::vector<ConstBuffer> AsynchronousWork::message(const Transfer& transfer) {
  std::vector<ConstBuffer> buffers;
  for (const at::Tensor& one : departing_.at(transfer)) buffers.push_back(buffer_of(one));
  return buffers;
}

// A layer that is computed again in the backward has the mask of its first pass.
void AsynchronousWork::compute(const Operation& operation) {
  stages_.number_passes(passing_.at(operation.micro_batch).number);
  const bool is_forward = operation.kind == Kind::forward;
  if (is_forward && is_update_open_ && !versions_->can_forward(operation.micro_batch))
    end_update(turns_.replicas);
  if (is_forward) forward(operation);
  else backward(operation);
  stages_.number_passes({});
  if (versions_) most_versions_ = std::max(most_versions_, versions_->kept());
}

Tensors AsynchronousWork::taken(const Operation& operation) {
  auto node = arriving_.extract(*transfer_before(placement_, operation));
  return std::move(node.mapped());
}

void AsynchronousWork::forward(const Operation& operation) {
  Passing& passing = passing_.at(operation.micro_batch);
  const Tensors given = operation.stage == 0 ? std::move(passing.inputs) : taken(operation);
  passing.inputs.clear();
  Tensors inputs;
  for (const at::Tensor& one : given) {
    passing.inputs.push_back(one.detach());
    const bool travels = operation.stage > 0 && crosses_back(one);
    if (travels) passing.inputs.back().set_requires_grad(true);
    // Autocast would cast a leaf once for all operators (stages_of_rank.cpp).
    inputs.push_back(travels ? at::alias(passing.inputs.back()) : passing.inputs.back());
  }
  StageModule& module = versions_ ? versions_->forward(operation.micro_batch) : *chunk_.module;
  std::optional<Autocast> scope;
  if (chunk_.parallel) scope.emplace(chunk_.parallel->autocast());
  passing.outputs = module.forward(std::move(inputs), stages_.recompute_every());
  if (!is_last()) return send(operation, passing.outputs);
  const double share = static_cast<double>(passing.samples) /
                       static_cast<double>(batches_.at(passing.batch).samples);
  const at::Tensor loss =
      loss_(only_tensor(passing.outputs, "loss"), std::exchange(passing.target, {}));
  passing.outputs = {loss * share};
}

void AsynchronousWork::backward(const Operation& operation) {
  auto node = passing_.extract(operation.micro_batch);
  const Passing passing = std::move(node.mapped());
  at::Tensor loss;
  if (is_last()) {
    const at::Tensor& whole = passing.outputs.front();
    loss = whole.detach().to(at::kDouble).reshape({1});
    if (whole.requires_grad()) whole.backward();
  } else {
    Tensors gradients = taken(operation);
    loss = std::move(gradients.back());
    gradients.pop_back();
    run_backward(passing.outputs, gradients);
  }
  Batch& batch = batches_.at(passing.batch);
  batch.loss.loss += loss.item<double>();
  if (operation.stage > 0) {
    Tensors back;
    for (const at::Tensor& input : passing.inputs)
      if (crosses_back(input))
        back.push_back(input.grad().defined() ? input.grad() : at::zeros_like(input));
    back.push_back(loss);
    send(operation, std::move(back));
  }
  if (!versions_) return;
  const StageModule& used = versions_->backward(operation.micro_batch);
  if (versions_->ends_step(operation.micro_batch)) begin_update(batch, used);
}

// Gradients of a version become those of the tensors that the optimizer steps, by a pass of their
// own, which tells DataParallel of them.
void AsynchronousWork::begin_update(const Batch& batch, const StageModule& used) {
  if (is_update_open_) end_update(turns_.replicas);
  Tensors leaves, gradients;
  const auto stepped = chunk_.module->parameters(), computed = used.parameters();
  for (std::size_t i = 0; i < stepped.size(); ++i) {
    if (!stepped[i].requires_grad() || !computed[i].grad().defined()) continue;
    leaves.push_back(stepped[i]);
    gradients.push_back(std::exchange(computed[i].mutable_grad(), {}));
  }
  if (turns_.replicas > 1) chunk_.parallel->weight(1);
  else if (batch.loss.weight) chunk_.parallel->weight(*batch.loss.weight);
  if (!leaves.empty()) torch::autograd::backward(leaves, gradients);
  ++begun_updates_;
  is_update_open_ = true;
  // With replicas the version is needed a round later, until when the others may take their turns.
  if (turns_.replicas == 1) end_update(1);
}

// So many replicas have a batch in this round. The step is by the sum of their gradients, so that
// each batch moves the weights as far as on a stage with one rank.
void AsynchronousWork::end_update(int contributors) {
  is_update_open_ = false;
  chunk_.parallel->synchronize();
  if (contributors > 1) {
    for (const at::Tensor& leaf : chunk_.module->parameters())
      if (leaf.grad().defined()) leaf.mutable_grad().mul_(contributors);
  }
  versions_->begin_version();
  const OptimizerOptions newest = options_of(*optimizer_);
  set_options(*optimizer_, options_.extract(begun_updates_ - 1).mapped());
  optimizer_->step();
  set_options(*optimizer_, newest);
  optimizer_->zero_grad();
}

// Another rank takes these.
void AsynchronousWork::send(const Operation& operation, Tensors tensors) {
  for (at::Tensor& one : tensors) one = one.detach().contiguous();
  departing_[*transfer_after(placement_, operation)] = std::move(tensors);
}

}  // namespace paceline::pipeline
