#include "paceline/torch/gradient/gradient_averaging.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/gradient/aggregate.h"

namespace paceline::parallel {
namespace {

// Tensors like these that have no memory.
std::vector<at::Tensor> shapes_of(std::span<const Parameter> parameters) {
  std::vector<at::Tensor> shapes;
  for (const Parameter& parameter : parameters)
    shapes.push_back(at::empty_like(parameter.tensor.detach(), at::TensorOptions(at::kMeta)));
  return shapes;
}

// They stand for gradients that travel. Who read one would get another number on each rank, or half
// a sum; who wrote to one would write into a message: so an optimizer that steps by itself throws.
std::vector<at::Tensor> stand_ins_for(std::span<const Parameter> parameters) {
  std::vector<at::Tensor> stand_ins;
  for (const Parameter& parameter : parameters) {
    stand_ins.push_back(unreadable_like(
        parameter.tensor,
        c10::str("the gradient of '", parameter.name,
                 "' is being averaged over the ranks, and nobody can read, change or step by it "
                 "until that has ended: call parallel.step(optimizer) instead of "
                 "optimizer.step(), or parallel.synchronize() before it. Clip, scale and log "
                 "gradients after synchronize()")));
  }
  return stand_ins;
}

std::vector<at::Tensor> tensors_of(std::span<const Parameter> parameters) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

}  // namespace

std::unique_ptr<Synchrony> make_gradient_averaging(const ModelParts& parts, Communicator& group,
                                                   Job* job, const DataParallelOptions& options) {
  return std::make_unique<GradientAveraging>(parts, group, job, options);
}

GradientAveraging::GradientAveraging(const ModelParts& parts, Communicator& group, Job* job,
                                     const DataParallelOptions& options, GradientReceiver* receiver)
    : parameters_(parts.trained()),
      shapes_(shapes_of(parts.dense)),
      stand_ins_(stand_ins_for(parts.dense)),
      elsewhere_(parts.dense.size()),
      dense_(parts.dense.size()),
      group_(group),
      with_servers_(job_with_servers(group, job, options)),
      receiver_(receiver),
      schedule_(parts.dense, group.size(), options, with_servers_),
      facts_(group, parts.training),
      passes_(parameters_, options.backward_passes_per_step),
      figures_(parts.dense, group, job) {
  if (receiver_ != nullptr) {
    layout_ = {.groups = receiver_->buckets(), .alignment = kSlotAlignment};
  } else if (!alone() && dense_ > 0) {
    layout_ = schedule_.first();
    path_ = layout_.path(group_, with_servers_);
  }
  lay_out();
  end();
}

GradientAveraging::~GradientAveraging() {
  for (std::size_t i = 0; i < dense_; ++i) drop_elsewhere(i);
  leave_memory_of(*buckets_, !open_);  // in the middle of a step they mean nothing
  for (std::size_t i = 0; i < dense_; ++i) {
    at::Tensor& grad = parameters_[i].tensor.mutable_grad();
    if (grad.is_same(stand_ins_[i])) grad.reset();
  }
}

std::vector<at::Tensor> GradientAveraging::leaves() const {
  return tensors_of(parameters_);
}

// The model's gradients must not point into the job's memory once nobody looks after it.
void GradientAveraging::leave_memory_of(const GradientBuckets& buckets, bool keep_values) {
  for (std::size_t i = 0; i < dense_; ++i) {
    at::Tensor& grad = parameters_[i].tensor.mutable_grad();
    if (!grad.defined() || grad.layout() != at::kStrided || grad.is_same(stand_ins_[i]) ||
        !buckets.contains(grad.const_data_ptr()))
      continue;
    try {
      grad = keep_values ? grad.clone() : at::Tensor();
    } catch (const std::exception&) {
      grad.reset();
    }
  }
}

bool GradientAveraging::arriving(std::size_t i) {
  if (failure_) std::rethrow_exception(failure_);
  if (is_dense(i)) drop_elsewhere(i);
  passes_.arriving(i, open_);
  if (!passes_.are_accumulating() && !open_) begin();
  if (weight_.weight != 0) return true;
  // A shadow's gradient counts for nothing: grad stays as on the ranks that ran no backward at all.
  // But it keeps the order of messages, in which layers that communicate within backward may stand.
  if (!passes_.are_accumulating() && !alone() && is_dense(i)) {
    const at::NoGradGuard no_grad;
    acquire_memory(buckets_->bucket_of(i), /*in_backward=*/true);
    contribute_without_gradient(i);
    filled(i);
    send_full_buckets();
  }
  return false;
}

std::shared_ptr<void> GradientAveraging::birthplace(std::size_t i) {
  if (alone() || !is_dense(i) || !passes_.will_send(i) || weight_.weight == 0 ||
      passes_.has_filled(i) || next_layout_)
    return nullptr;
  try {
    acquire_memory(buckets_->bucket_of(i), /*in_backward=*/true);
  } catch (const Error&) {  // libtorch is in the middle of an operator: the next event throws it
    return nullptr;
  }
  return buckets_->lend(i);
}

void GradientAveraging::arrived(std::size_t i, bool held_elsewhere) {
  if (passes_.are_accumulating()) {
    passes_.accumulated(i);
    figures_.pass_accumulated();
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
  ++figures_.current().gradients;
  if (is_dense(i)) {
    figures_.arrived(i);
    if (!alone()) take(i, held_elsewhere);
  }
  passes_.made(i);
  if (alone()) return;
  if (is_dense(i)) {
    hide(i);
    filled(i);
  }
  send_full_buckets();
}

// A gradient belongs to the averaging alone from its arrival to the end of the step.
void GradientAveraging::hide(std::size_t i) {
  parameters_[i].tensor.mutable_grad() = stand_ins_[i];
  passes_.hidden(i);
}

// Memory that one bucket after the other has: one fills it while another is under way. Where a
// backward pass is quicker than the messages, it waits.
void GradientAveraging::acquire_memory(std::size_t bucket, bool in_backward) {
  if (!needs_room() || buckets_->has_memory(bucket)) return;
  std::vector<std::size_t> under_way;
  for (std::size_t b = 0; b < receiver_->started(); ++b)
    if (buckets_->has_memory(b)) under_way.push_back(b);
  constexpr std::size_t kUnderWay = 1;
  if (in_backward && under_way.size() > kUnderWay) {
    communicating([&] {
      for (std::size_t k = 0; k + kUnderWay < under_way.size(); ++k) {
        receiver_->wait(under_way[k]);
        release_memory(under_way[k]);
      }
    });
  }
  buckets_->acquire(bucket);
}

void GradientAveraging::release_memory(std::size_t bucket) {
  if (needs_room() && buckets_->has_memory(bucket)) buckets_->release(bucket);
}

void GradientAveraging::take(std::size_t i, bool held_elsewhere) {
  acquire_memory(buckets_->bucket_of(i), current_backward() >= 0);
  figures_.current().copied += !is_same_memory(parameters_[i].tensor.grad(), buckets_->slot(i));
  buckets_->take(i, held_elsewhere);
}

// A parameter without a gradient in this step contributes what its grad holds already, so that
// accumulated gradients are those of one process; else it contributes zeros. Its grad must not be
// the slot: if no rank used it, it has to stay as it is.
void GradientAveraging::contribute_without_gradient(std::size_t i) {
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

void GradientAveraging::filled(std::size_t i) {
  passes_.filled(i);
  const std::size_t bucket = buckets_->bucket_of(i);
  if (--missing_[bucket] == 0) full_.push_back(bucket);
}

// The share of this rank's gradients is known only when all weights are.
void GradientAveraging::send_full_buckets() {
  // Memory comes back only from buckets that were sent, so these wait for the weights.
  if (full_.empty() || (!facts_.knows_weights() && !needs_room())) return;
  communicating([this] {
    for (const std::size_t bucket : full_) send(bucket);
  });
  full_.clear();
  figures_.started(static_cast<int>(layout_.started(is_sent_)));
}

// If no rank has a batch there is nothing to send: the loop is over, on all ranks.
void GradientAveraging::send(std::size_t bucket) {
  const StepWeights& weights = facts_.weights();
  if (weights.total == 0) return;
  is_sent_[bucket] = true;
  const auto& members = present_plan()[bucket].gradients;
  for (int index : members) {
    const auto i = static_cast<std::size_t>(index);
    if (passes_.has_made(i)) hide(i);
  }
  if (receiver_ != nullptr && !contributes(bucket)) {
    receiver_->send(bucket, {}, nullptr);
    return;
  }
  if (schedule_.sees_gradients()) show(bucket);
  const Buffer gradients = buckets_->buffer(bucket);
  if (const double share = weights.share(group_.rank()); share != 1)
    scale(gradients.dtype, {gradients.data, gradients.size_bytes()}, share);
  if (receiver_ != nullptr) {
    receiver_->send(bucket, gradients, buckets_->memory(bucket));
    return;
  }
  path_->load(static_cast<int>(bucket), gradients);
  const int begin = layout_.plan.groups[bucket].begin;
  for (int place = 0; place < static_cast<int>(members.size()); ++place)
    path_->ready(begin + place);
}

// Gradients that are compressed are of f32.
void GradientAveraging::show(std::size_t bucket) {
  for (int index : present_plan()[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    const at::Tensor& slot = buckets_->slot(i);
    schedule_.see(i, {slot.const_data_ptr<float>(), static_cast<std::size_t>(slot.numel())});
  }
}

// A bucket without memory to which nothing of this rank belongs.
bool GradientAveraging::contributes(std::size_t bucket) const {
  if (!needs_room() || buckets_->has_memory(bucket)) return true;
  return weight_.weight > 0 &&
         std::ranges::any_of(present_plan()[bucket].gradients, [this](int index) {
           return parameters_[static_cast<std::size_t>(index)].tensor.grad().defined();
         });
}

void GradientAveraging::fill_the_rest() {
  for (std::size_t bucket = 0; bucket < present_plan().size(); ++bucket) {
    if (is_sent_[bucket]) continue;
    const bool has_slots = contributes(bucket);
    if (has_slots) acquire_memory(bucket, /*in_backward=*/false);
    for (int index : present_plan()[bucket].gradients) {
      const auto i = static_cast<std::size_t>(index);
      if (passes_.has_filled(i)) continue;
      // Under no_sync, and not again in the pass that ended it.
      if (passes_.has_accumulated(i) && weight_.weight > 0 &&
          parameters_[i].tensor.grad().defined()) {
        take(i, true);
        passes_.counts(i);
      } else if (has_slots) {
        contribute_without_gradient(i);
      }
      filled(i);
    }
    if (needs_room()) send_full_buckets();
  }
}

void GradientAveraging::tell_weight() {
  if (failure_) std::rethrow_exception(failure_);
  if (facts_.has_told_weight()) return;
  const bool has_written = writes_ != nullptr && writes_->any();
  communicating([&] { facts_.tell_weight(weight_, has_written); });
}

WatchedLane::Call GradientAveraging::tell_reading(std::size_t unit) {
  if (failure_) std::rethrow_exception(failure_);
  return communicating([&] { return facts_.tell_reading(unit); });
}

void GradientAveraging::wait_for_reading(const WatchedLane::Call& told) {
  communicating([&] { facts_.wait_for(told); });
}

bool GradientAveraging::has_shadows() {
  return communicating([this] { return facts_.weights().shadows > 0; });
}

void GradientAveraging::begin() {
  open_ = true;
  if (alone()) return;
  for (std::size_t i = 0; i < dense_; ++i) drop_elsewhere(i);
  lay_out_next();
  for (std::size_t i = 0; i < dense_; ++i)
    if (buckets_->is_kept_elsewhere(i)) buckets_->move_elsewhere(buckets_->bucket_of(i));
  tell_weight();
  if (facts_.told() != weight_) {
    throw_misuse(
        "DataParallel::weight() was called after the forward pass of this step had begun, when "
        "ranks with sharded parameters have told their weights already: call it before");
  }
}

void GradientAveraging::end() {
  open_ = false;
  for (std::size_t b = 0; b < present_plan().size(); ++b) release_memory(b);
  facts_.end();
  passes_.end_step();
  expect_all();
  figures_.begin_next();
}

void GradientAveraging::expect_all() {
  missing_.clear();
  for (const schedule::Bucket& bucket : present_plan()) missing_.push_back(bucket.gradients.size());
  full_.clear();
  is_sent_.assign(present_plan().size(), false);
}

void GradientAveraging::lay_out() {
  const std::size_t sent = path_ || receiver_ != nullptr ? dense_ : 0;
  BucketMemory memory;
  if (receiver_ != nullptr)
    memory = {.bytes = receiver_->bytes(), .on_demand = !receiver_->keeps_memory()};
  buckets_ = std::make_unique<GradientBuckets>(
      layout_.groups, tensors_of({parameters_.data(), sent}), std::span(shapes_).first(sent),
      group_, layout_.alignment, std::move(memory));
}

// The layout changes when the next step begins: by then its gradients are usually dropped, so that
// there are never two copies of all.
void GradientAveraging::lay_out_next() {
  drain();
  if (!next_layout_) return;
  leave_memory_of(*buckets_, true);
  buckets_.reset();
  layout_ = *std::exchange(next_layout_, std::nullopt);
  lay_out();
  is_on_its_way_.clear();
  expect_all();
}

}  // namespace paceline::parallel
