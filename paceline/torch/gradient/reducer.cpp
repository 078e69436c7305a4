#include "paceline/torch/gradient/reducer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/gradient/recording.h"

namespace paceline::parallel {
namespace {

std::vector<Parameter> joined(std::vector<Parameter> first, std::vector<Parameter> second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<at::Tensor> tensors_of(std::span<const Parameter> parameters) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

}  // namespace

Reducer::Reducer(std::vector<Parameter> dense, std::vector<Parameter> sparse, Communicator& group,
                 Job* job, const DataParallelOptions& options)
    : parameters_(joined(dense, std::move(sparse))),
      dense_(dense.size()),
      group_(group),
      job_(job),
      schedule_(dense, group.size(), job, options),
      passes_of_a_step_(options.backward_passes_per_step),
      watch_(parameters_),
      recorder_(recorder_of(dense, group, job)),
      progress_(parameters_.size()) {
  if (passes_of_a_step_ < 1) {
    throw_misuse(c10::str("DataParallelOptions::backward_passes_per_step is ", passes_of_a_step_,
                          "; a step has at least one backward pass"));
  }
  const auto tensors =
      tensors_of(alone() ? std::span<const Parameter>() : std::span<const Parameter>(dense));
  const GradientLayout layout = alone() ? GradientLayout() : schedule_.first();
  buckets_ = std::make_unique<GradientBuckets>(layout.groups, tensors, job_, layout.alignment);
  carrier_ = layout.carrier(group_);
  end();
  hooks_.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    GradientEvents events{[this, i] { return arriving(i); },
                          [this, i](bool held) { accumulated(i, held); }};
    if (options.born_in_place && !alone() && is_dense(i))
      events.birthplace = [this, i] { return birthplace(i); };
    hooks_.emplace_back(parameters_[i].tensor, std::move(events));
  }
}

Reducer::~Reducer() {
  leave_memory_of(*buckets_, !open_);  // in the middle of a step they mean nothing
}

// The model's gradients must not point into the job's memory once nobody looks after it.
void Reducer::leave_memory_of(const GradientBuckets& buckets, bool keep_values) {
  for (std::size_t i = 0; i < dense_; ++i) {
    at::Tensor& grad = parameters_[i].tensor.mutable_grad();
    if (!grad.defined() || grad.layout() != at::kStrided ||
        !buckets.contains(grad.const_data_ptr()))
      continue;
    try {
      grad = keep_values ? grad.clone() : at::Tensor();
    } catch (const std::exception&) {
      grad.reset();
    }
  }
}

void Reducer::set_weight(double weight) {
  if (!std::isfinite(weight) || weight < 0) {
    throw_misuse(c10::str("DataParallel::weight(", weight,
                          "): a weight is the number of samples of this rank's batch; 0 for none"));
  }
  if (open_) {
    throw_misuse(
        "DataParallel::weight() was called between backward() and synchronize(): gradients of this "
        "step were weighted already. Call it before the forward pass");
  }
  if (weight == 0 && std::ranges::any_of(progress_, &Progress::accumulated)) {
    throw_misuse(
        "DataParallel::weight(0) would throw away the gradients that this rank accumulated: a rank "
        "that runs out of batches within a window of backward passes ends the window with what it "
        "has (step(optimizer), its weight that of the window so far), then says weight(0)");
  }
  weight_ = {weight, true};
}

void Reducer::restore(RankWeight weight) {
  weight_ = weight;
}

void Reducer::pause() {
  if (open_) {
    throw_misuse(
        "DataParallel::no_sync() was called between backward() and synchronize(): end the step "
        "first with synchronize() or step(optimizer)");
  }
  if (paused_)
    throw_misuse("DataParallel::no_sync() is already in force: end its guard before the next one");
  paused_ = true;
}

void Reducer::resume() {
  paused_ = false;
}

void Reducer::refuse_second_backward(std::size_t i) const {
  if (const std::string name = watch_.changed_parameter(); !name.empty()) {
    throw_misuse(
        c10::str("the optimizer stepped without synchronize(): parameter '", name,
                 "' changed after its gradient was made and before it was averaged, so the "
                 "replicas differ now. Call parallel.step(optimizer) instead of "
                 "optimizer.step(), or synchronize() before it"));
  }
  throw_misuse(
      c10::str("a second backward() before the last one was synchronised (gradient of '",
               parameters_[i].name,
               "'): call synchronize() or step(optimizer) after each backward(); to "
               "accumulate over several passes run all but the last under no_sync(), or add "
               "up their losses"));
}

bool Reducer::arriving(std::size_t i) {
  if (failure_) std::rethrow_exception(failure_);
  const std::string& name = parameters_[i].name;
  if (backward_builds_graph()) {
    throw_misuse(
        c10::str("backward(create_graph=true) makes gradients of gradients, which DataParallel "
                 "cannot synchronise (at '",
                 name, "'): compute them with torch::autograd::grad, which leaves .grad alone"));
  }
  if (open_ && !is_nested_backward() && begins_pass(i)) refuse_second_backward(i);
  if (progress_[i].filled) {
    throw_misuse(c10::str(
        "a second gradient for parameter '", name,
        "' while the first one is in flight, by a second backward() or by two within one: a "
        "parameter may get one gradient in each step. Call synchronize() or step(optimizer) in "
        "between, or run the earlier passes under no_sync()"));
  }
  enter_pass(i);
  if (!accumulating() && !open_) begin();
  if (weight_.weight != 0) return true;
  // A shadow's gradient counts for nothing: grad stays as on the ranks that ran no backward at all.
  // But it keeps the order of messages, in which layers that communicate within backward may stand.
  if (!accumulating() && !alone() && is_dense(i)) {
    const at::NoGradGuard no_grad;
    contribute_without_gradient(i);
    filled(i);
  }
  return false;
}

// A nested backward belongs to the pass around it, which has numbers below its own: of two that are
// nested, the second gradient of a parameter tells that they are of two passes.
bool Reducer::begins_pass(std::size_t i) const {
  const int backward = current_backward();
  if (backward == pass_.latest) return false;
  if (pass_.number == 0) return true;
  if (is_nested_backward()) return progress_[i].pass == pass_.number;
  return backward != pass_.outer && (pass_.outer >= 0 || backward > pass_.nested);
}

void Reducer::enter_pass(std::size_t i) {
  if (begins_pass(i)) {
    pass_ = {.number = pass_.number + 1};
    if (!paused_) ++passes_;
  }
  pass_.latest = current_backward();
  if (!is_nested_backward()) pass_.outer = pass_.latest;
  else if (pass_.nested < 0) pass_.nested = pass_.latest;
  progress_[i].pass = pass_.number;
}

std::shared_ptr<void> Reducer::birthplace(std::size_t i) {
  const bool last_pass = passes_ + (begins_pass(i) ? 1 : 0) >= passes_of_a_step_;
  const bool in_flight = progress_[i].filled;
  if (paused_ || !last_pass || weight_.weight == 0 || in_flight || next_layout_) return nullptr;
  return buckets_->lend(i);
}

void Reducer::accumulated(std::size_t i, bool held_elsewhere) {
  if (accumulating()) {
    progress_[i].accumulated = true;
    return;
  }
  const at::NoGradGuard no_grad;
  const Parameter& parameter = parameters_[i];
  const at::Tensor& grad = parameter.tensor.grad();
  if (is_dense(i) && grad.layout() != at::kStrided) {
    throw_misuse(c10::str("parameter '", parameter.name, "' has a gradient of layout ",
                          grad.layout(),
                          ", which was not announced: name it in DataParallelOptions::sparse "
                          "(torch::nn::Embedding with sparse(true) is known by itself), or make it "
                          "dense"));
  }
  ++current_.gradients;
  Progress& progress = progress_[i];
  progress.fired = true;
  if (is_dense(i)) {
    observed_.arrived.push_back(static_cast<int>(i));
    observed_.arrived_at.push_back(since_last_step_.seconds() - updated_at_);
    if (!alone()) take(i, held_elsewhere);
  }
  watch_.gradient_made(i);
  progress.filled = true;
  if (is_dense(i) && !alone()) filled(i);
}

void Reducer::take(std::size_t i, bool held_elsewhere) {
  current_.copied += !is_same_memory(parameters_[i].tensor.grad(), buckets_->slot(i));
  if (!buckets_->take(i, held_elsewhere)) return;
  for (int moved : present_plan()[buckets_->bucket_of(i)].gradients) {
    if (const auto k = static_cast<std::size_t>(moved); progress_[k].fired)
      watch_.gradient_moved(k);
  }
}

// What made no gradient in this step contributes what its grad holds already, so that accumulated
// gradients stay what they would be in one process; else zeros. Its grad must not be the slot: if
// no rank used it, it has to stay as it is.
void Reducer::contribute_without_gradient(std::size_t i) {
  at::Tensor slot = buckets_->slot(i);
  at::Tensor& grad = parameters_[i].tensor.mutable_grad();
  if (is_same_memory(grad, slot)) grad = grad.clone();
  if (weight_.weight == 0 || !grad.defined() || grad.layout() != at::kStrided ||
      grad.sizes() != slot.sizes()) {
    slot.zero_();
  } else {
    slot.copy_(grad);
  }
}

void Reducer::filled(std::size_t i) {
  progress_[i].filled = true;
  const std::size_t bucket = buckets_->bucket_of(i);
  if (--missing_[bucket] > 0 || is_carried_[bucket]) return;
  carry(bucket);
  const auto started = static_cast<int>(carrier_->started());
  if (current_.launched_in_backward == 0 && started > 0)
    current_.gradients_at_first_launch = current_.gradients;
  current_.launched_in_backward = started;
}

void Reducer::carry(std::size_t bucket) {
  GradientLoad load{buckets_->buffer(bucket), buckets_->memory(bucket), {weight_, {}}};
  for (int index : present_plan()[bucket].gradients) {
    load.note.used.push_back(progress_[static_cast<std::size_t>(index)].fired &&
                             weight_.weight > 0);
  }
  for (int index : present_plan()[bucket].gradients)
    watch_.gradient_sent(static_cast<std::size_t>(index));
  is_carried_[bucket] = true;
  if (schedule_.sees_gradients()) show(bucket);
  try {
    carrier_->carry(bucket, std::move(load));
  } catch (const Error&) {
    failure_ = std::current_exception();
    throw;
  }
}

// Gradients that are compressed are of f32.
void Reducer::show(std::size_t bucket) {
  for (int index : present_plan()[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    const at::Tensor& slot = buckets_->slot(i);
    schedule_.see(i, {slot.const_data_ptr<float>(), static_cast<std::size_t>(slot.numel())});
  }
}

void Reducer::carry_the_rest() {
  for (std::size_t bucket = 0; bucket < present_plan().size(); ++bucket) {
    if (is_carried_[bucket]) continue;
    for (int index : present_plan()[bucket].gradients) {
      const auto i = static_cast<std::size_t>(index);
      Progress& progress = progress_[i];
      if (progress.filled) continue;
      // Under no_sync, and not again in the pass that ended it.
      if (progress.accumulated && weight_.weight > 0 && parameters_[i].tensor.grad().defined()) {
        take(i, true);
        progress.fired = true;
        watch_.gradient_moved(i);
      } else {
        contribute_without_gradient(i);
      }
      progress.filled = true;
    }
    carry(bucket);
  }
}

void Reducer::begin() {
  if (!alone()) lay_out_next();
  open_ = true;
}

void Reducer::end() {
  open_ = false;
  pass_ = {};
  passes_ = 0;
  observed_ = {};
  progress_.assign(parameters_.size(), {});
  watch_.forget();
  expect_all();
  current_ = {};
  since_last_step_.restart();
  updated_at_ = 0;
}

void Reducer::expect_all() {
  missing_.clear();
  for (const schedule::Bucket& bucket : present_plan()) missing_.push_back(bucket.gradients.size());
  is_carried_.assign(present_plan().size(), false);
  used_.resize(present_plan().size());
}

// Not before the next step begins: by then its gradients are usually dropped, so that there are
// never two copies of all.
void Reducer::lay_out_next() {
  receive_all();
  if (!next_layout_) return;
  leave_memory_of(*buckets_, true);
  buckets_.reset();
  buckets_ = std::make_unique<GradientBuckets>(next_layout_->groups,
                                               tensors_of({parameters_.data(), dense_}), job_,
                                               next_layout_->alignment);
  next_layout_.reset();
  is_under_way_.clear();
  expect_all();
}

}  // namespace paceline::parallel
