#include "paceline/torch/pipeline/stages_of_rank.h"

#include <torch/torch.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "paceline/core/base/base.h"

namespace paceline::pipeline {
namespace {

Tensors with_gradients(const Tensors& tensors) {
  Tensors some;
  std::ranges::copy_if(tensors, std::back_inserter(some), crosses_back);
  return some;
}

std::vector<std::int64_t> lengths_of(std::int64_t samples, std::int64_t parts) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(parts), samples / parts);
  for (std::int64_t i = 0; i < samples % parts; ++i) ++lengths[static_cast<std::size_t>(i)];
  return lengths;
}

}  // namespace

std::int64_t MicroBatches::sum() const {
  return std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
}

StagesOfRank::StagesOfRank(Placement placement, std::vector<Chunk>& chunks, Loss loss,
                           int recompute_every, bool splits_backward)
    : placement_(std::move(placement)),
      chunks_(chunks),
      loss_(std::move(loss)),
      recompute_every_(recompute_every),
      splits_backward_(splits_backward) {}

void StagesOfRank::measure(LayerWatch& watch) {
  watch_ = &watch;
  for (Chunk& chunk : chunks_) chunk.module->measure(watch);
}

void StagesOfRank::begin_step(MicroBatches micro_batches, const CutShapes& shapes,
                              double loss_scale) {
  micro_batches_ = std::move(micro_batches);
  loss_scale_ = loss_scale;
  shapes_ = &shapes;
  live_.clear();
  later_.clear();
  arriving_.clear();
  handed_.clear();
  unsent_.clear();
  loss_sum_ = at::Tensor();
  if (micro_batches_.samples.size() == 1 && !splits_backward_) return;
  for (const Chunk& chunk : chunks_)
    if (chunk.parallel) unsent_.emplace(chunk.stage, chunk.parallel->no_sync());
}

std::optional<double> StagesOfRank::end_step() {
  unsent_.clear();
  if (!loss_sum_.defined()) return std::nullopt;
  return loss_sum_.item<double>();
}

Chunk& StagesOfRank::chunk_of(int stage) {
  return chunks_[static_cast<std::size_t>(stage / placement_.ranks)];
}

std::vector<Buffer> StagesOfRank::room(const Transfer& transfer) {
  // A gradient has the shape of what it is the gradient of, which the next stage takes.
  const int cut = transfer.kind == Kind::forward ? transfer.stage : transfer.stage + 1;
  const auto samples = micro_batches_.samples[static_cast<std::size_t>(transfer.micro_batch)];
  Tensors& tensors = arriving_[transfer];
  for (const TensorShape& shape : shapes_->at({cut, samples}))
    if (transfer.kind == Kind::forward || at::isFloatingType(shape.type))
      tensors.push_back(tensor_of(shape));
  if (tensors.empty()) tensors.push_back(at::zeros({1}));
  std::vector<Buffer> room;
  for (const at::Tensor& one : tensors) room.push_back(buffer_of(one));
  return room;
}

std::vector<ConstBuffer> StagesOfRank::message(const Transfer& transfer) {
  std::vector<ConstBuffer> buffers;
  for (const at::Tensor& one : departing_.at(transfer)) buffers.push_back(buffer_of(one));
  return buffers;
}

void StagesOfRank::compute(const Operation& operation) {
  switch (operation.kind) {
    case Kind::forward: return forward(operation);
    case Kind::backward: return backward(operation);
    case Kind::weight: return weight(operation);
  }
}

Tensors StagesOfRank::taken_inputs(const Operation& operation) {
  const auto i = static_cast<std::size_t>(operation.micro_batch);
  if (operation.kind == Kind::forward && operation.stage == 0) return micro_batches_.data[i];
  if (const auto transfer = transfer_before(placement_, operation)) {
    auto node = arriving_.extract(*transfer);
    return std::move(node.mapped());
  }
  auto node = handed_.extract(operation);
  return std::move(node.mapped());
}

void StagesOfRank::forward(const Operation& operation) {
  Chunk& chunk = chunk_of(operation.stage);
  Live live;
  Tensors inputs;
  for (const at::Tensor& one : taken_inputs(operation)) {
    live.inputs.push_back(one.detach());
    const bool travels = operation.stage > 0 && crosses_back(one);
    if (travels) live.inputs.back().set_requires_grad(true);
    // Autocast casts a leaf once for all operators, whose gradients would then be summed in 16
    // bits, as they are not within one process.
    inputs.push_back(travels ? at::alias(live.inputs.back()) : live.inputs.back());
  }
  std::optional<Autocast> scope;
  if (chunk.parallel) scope.emplace(chunk.parallel->autocast());
  if (splits_backward_ && !is_measured()) live.later = std::make_unique<LaterGradients>();
  {
    std::optional<LaterGradients::Scope> leaving;
    if (live.later) leaving.emplace(*live.later);
    live.outputs = chunk.module->forward(std::move(inputs), is_measured() ? 0 : recompute_every_);
  }
  if (is_last(operation.stage)) {
    const auto i = static_cast<std::size_t>(operation.micro_batch);
    const double share =
        static_cast<double>(micro_batches_.samples[i]) / static_cast<double>(micro_batches_.sum());
    const Stopwatch of_loss;
    const at::Tensor loss = loss_(only_tensor(live.outputs, "loss"), micro_batches_.target[i]);
    live.outputs = {loss * share};
    if (is_measured()) watch_->add_forward(chunk.module->last(), of_loss.seconds());
    const at::Tensor part = live.outputs.front().detach().to(at::kDouble);
    loss_sum_ = loss_sum_.defined() ? loss_sum_ + part : part;
  } else {
    hand_on(operation, live.outputs);
  }
  live_[{operation.stage, operation.micro_batch}] = std::move(live);
}

void StagesOfRank::backward(const Operation& operation) {
  Chunk& chunk = chunk_of(operation.stage);
  auto node = live_.extract(Place{operation.stage, operation.micro_batch});
  Live live = std::move(node.mapped());
  if (live.later) live.later->settle(live.outputs);
  const bool leaves_gradients = live.later && !live.later->is_empty();
  if (is_last_pass(operation) && !leaves_gradients) begin_sending(operation.stage);
  const Tensors gradients = is_last(operation.stage) ? Tensors() : taken_inputs(operation);
  const bool is_measured = this->is_measured();
  if (is_measured) watch_->begin_backward();
  run_backward(chunk, live, gradients);
  if (is_measured) watch_->end_backward(chunk.module->first(), chunk.module->last());
  if (leaves_gradients) later_[{operation.stage, operation.micro_batch}] = std::move(live.later);
  if (operation.stage == 0) return;
  Tensors back;
  for (const at::Tensor& input : with_gradients(live.inputs))
    back.push_back(input.grad().defined() ? input.grad() : at::zeros_like(input));
  if (back.empty()) back.push_back(at::zeros({1}));
  hand_on(operation, std::move(back));
}

bool StagesOfRank::is_last_pass(const Operation& operation) const {
  return operation.micro_batch + 1 == static_cast<int>(micro_batches_.samples.size());
}

// The last pass makes all of its gradients, after those that others have left.
void StagesOfRank::begin_sending(int stage) {
  for (auto& [place, later] : later_)
    if (place.first == stage) later->make();
  std::erase_if(later_, [stage](const auto& one) { return one.first.first == stage; });
  unsent_.erase(stage);
}

void StagesOfRank::run_backward(Chunk& chunk, const Live& live, const Tensors& gradients) {
  if (is_last(chunk.stage)) {
    at::Tensor loss = live.outputs.front();
    if (loss_scale_ != 1) loss = loss * loss_scale_;
    if (chunk.parallel) chunk.parallel->backward(loss);
    else if (loss.requires_grad()) loss.backward();
    return;
  }
  Tensors outputs, given;
  std::size_t next = 0;
  for (const at::Tensor& output : live.outputs) {
    if (!crosses_back(output)) continue;
    const at::Tensor& gradient = gradients[next++];
    if (!output.requires_grad()) continue;
    outputs.push_back(output);
    given.push_back(gradient);
  }
  if (!outputs.empty()) torch::autograd::backward(outputs, given);
}

// A DataParallel knows one pass in which messages leave: that of the last weight operation. So
// gradients that backwards have made themselves leave at the end of the step.
void StagesOfRank::weight(const Operation& operation) {
  auto node = later_.extract(Place{operation.stage, operation.micro_batch});
  if (node.empty()) return;
  if (is_last_pass(operation)) unsent_.erase(operation.stage);
  node.mapped()->make();
}

// The next stage, or the one before it, takes these from another rank or from this one.
void StagesOfRank::hand_on(const Operation& operation, Tensors tensors) {
  for (at::Tensor& one : tensors) one = one.detach().contiguous();
  if (const auto transfer = transfer_after(placement_, operation))
    departing_[*transfer] = std::move(tensors);
  else handed_[*successor_of(operation, placement_.stages)] = std::move(tensors);
}

MicroBatches cut_batch(const Tensors* data, const at::Tensor* target, std::int64_t samples,
                       int parts) {
  if (target != nullptr &&
      (!target->defined() || target->dim() == 0 || target->size(0) != samples)) {
    throw_misuse(c10::str("Pipeline::step() got ",
                          target->defined() ? describe(*target) : std::string("no target"),
                          " where the last stage is, for a batch of ", samples,
                          " samples: hand in the target of each sample"));
  }
  MicroBatches batches{.samples = lengths_of(samples, parts)};
  std::int64_t begin = 0;
  for (const std::int64_t length : batches.samples) {
    Tensors& part = batches.data.emplace_back();
    if (data != nullptr)
      for (const at::Tensor& one : *data) part.push_back(one.narrow(0, begin, length));
    batches.target.push_back(target != nullptr ? target->narrow(0, begin, length) : at::Tensor());
    begin += length;
  }
  return batches;
}

}  // namespace paceline::pipeline
