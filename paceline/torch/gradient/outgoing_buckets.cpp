#include "paceline/torch/gradient/outgoing_buckets.h"

#include <torch/torch.h>

#include <algorithm>
#include <span>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::gradient {
namespace {

// Tensors like these that have no memory.
std::vector<at::Tensor> shapes_of(std::span<const replica::Parameter> parameters) {
  std::vector<at::Tensor> shapes;
  for (const replica::Parameter& parameter : parameters)
    shapes.push_back(at::empty_like(parameter.tensor.detach(), at::TensorOptions(at::kMeta)));
  return shapes;
}

// Placeholder gradients while the real ones are in flight: to read one would give another number on
// each rank, or half a sum, and to write one would write into a message. So libtorch refuses both.
std::vector<at::Tensor> stand_ins_for(std::span<const replica::Parameter> parameters) {
  std::vector<at::Tensor> stand_ins;
  for (const replica::Parameter& parameter : parameters) {
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

}  // namespace

OutgoingBuckets::OutgoingBuckets(const std::vector<replica::Parameter>& parameters,
                                 std::size_t dense, Communicator& group, Means& means,
                                 GradientStep& step)
    : parameters_(parameters),
      dense_(dense),
      group_(group),
      means_(means),
      step_(step),
      shapes_(shapes_of({parameters.data(), dense})),
      stand_ins_(stand_ins_for({parameters.data(), dense})) {
  lay_out();
}

OutgoingBuckets::~OutgoingBuckets() {
  for (std::size_t i = 0; i < dense_; ++i) {
    at::Tensor& grad = parameters_[i].tensor.mutable_grad();
    if (grad.is_same(stand_ins_[i])) grad.reset();
  }
}

void OutgoingBuckets::lay_out() {
  const GradientLayout& layout = means_.layout();
  with_slots_ = layout.groups.empty() ? 0 : dense_;
  const std::span with_slots(parameters_.data(), with_slots_);
  buckets_ = std::make_unique<GradientBuckets>(layout.groups, replica::tensors_of(with_slots),
                                               std::span(shapes_).first(with_slots_), group_,
                                               layout.alignment, layout.memory);
  expect_all();
}

void OutgoingBuckets::lay_out_anew() {
  let_go(/*keep_values=*/true);
  buckets_.reset();  // so that there are never two copies of all
  lay_out();
}

// The model's gradients must not point into the job's memory once nobody looks after it.
void OutgoingBuckets::let_go(bool keep_values) {
  for (std::size_t i = 0; i < dense_; ++i) {
    at::Tensor& grad = parameters_[i].tensor.mutable_grad();
    if (!grad.defined() || grad.layout() != at::kStrided || grad.is_same(stand_ins_[i]) ||
        !buckets_->contains(grad.const_data_ptr()))
      continue;
    try {
      grad = keep_values ? grad.clone() : at::Tensor();
    } catch (const std::exception&) {
      grad.reset();
    }
  }
}

void OutgoingBuckets::expect_all() {
  missing_.clear();
  for (const schedule::Bucket& bucket : means_.layout().groups)
    missing_.push_back(bucket.gradients.size());
  full_.clear();
  is_sent_.assign(missing_.size(), false);
}

void OutgoingBuckets::begin_step() {
  for (std::size_t i = 0; i < with_slots_; ++i)
    if (buckets_->is_kept_elsewhere(i)) buckets_->move_elsewhere(buckets_->bucket_of(i));
}

void OutgoingBuckets::end_step() {
  for (std::size_t bucket = 0; bucket < is_sent_.size(); ++bucket) buckets_->release(bucket);
  expect_all();
}

std::shared_ptr<void> OutgoingBuckets::gradient_memory(std::size_t i) {
  try {
    acquire(buckets_->bucket_of(i), /*in_backward=*/true);
  } catch (const Error&) {  // libtorch is in the middle of an operator: the next event throws it
    return nullptr;
  }
  return buckets_->lend(i);
}

void OutgoingBuckets::claim_slot(std::size_t i, bool held_elsewhere) {
  acquire(buckets_->bucket_of(i), current_backward() >= 0);
  step_.figures.current().copied +=
      !is_same_memory(parameters_[i].tensor.grad(), buckets_->slot(i));
  buckets_->take(i, held_elsewhere);
}

void OutgoingBuckets::filled(std::size_t i) {
  hide(i);
  count_filled(i);
}

void OutgoingBuckets::fill_without_gradient(std::size_t i) {
  acquire(buckets_->bucket_of(i), /*in_backward=*/true);
  contribute_what_grad_holds(i);
  count_filled(i);
}

void OutgoingBuckets::hide(std::size_t i) {
  parameters_[i].tensor.mutable_grad() = stand_ins_[i];
  step_.passes.hidden(i);
}

void OutgoingBuckets::count_filled(std::size_t i) {
  step_.passes.filled(i);
  const std::size_t bucket = buckets_->bucket_of(i);
  if (--missing_[bucket] == 0) full_.push_back(bucket);
}

// Accumulated gradients are thus those of one process. The grad must not be the slot: if no rank
// used the parameter, it has to stay as it is.
void OutgoingBuckets::contribute_what_grad_holds(std::size_t i) {
  at::Tensor slot = buckets_->slot(i);
  at::Tensor& grad = parameters_[i].tensor.mutable_grad();
  if (is_same_memory(grad, slot)) grad = grad.clone();
  if (step_.weight.weight == 0 || !grad.defined() || grad.layout() != at::kStrided ||
      grad.sizes() != slot.sizes()) {
    slot.zero_();
  } else {
    slot.copy_(grad);
  }
}

// A bucket without memory, to which nothing of this rank belongs, needs none.
bool OutgoingBuckets::contributes(std::size_t bucket) const {
  if (buckets_->has_memory(bucket)) return true;
  return step_.weight.weight > 0 &&
         std::ranges::any_of(means_.layout().groups[bucket].gradients, [this](int index) {
           return parameters_[static_cast<std::size_t>(index)].tensor.grad().defined();
         });
}

void OutgoingBuckets::acquire(std::size_t bucket, bool in_backward) {
  if (buckets_->has_memory(bucket)) return;
  std::vector<std::size_t> under_way;
  const std::size_t sent = started();
  for (std::size_t b = 0; b < sent; ++b)
    if (buckets_->has_memory(b)) under_way.push_back(b);
  constexpr std::size_t kUnderWay = 1;
  if (in_backward && under_way.size() > kUnderWay) {
    step_.failure.communicating([&] {
      for (std::size_t k = 0; k + kUnderWay < under_way.size(); ++k) {
        static_cast<void>(means_.wait(under_way[k]));
        buckets_->release(under_way[k]);
      }
    });
  }
  buckets_->acquire(bucket);
}

// The share of this rank's gradients is known only when all weights are.
void OutgoingBuckets::send_full() {
  // Memory comes back only from buckets that were sent, so these wait for the weights.
  if (full_.empty() || (!step_.facts.knows_weights() && !buckets_->is_on_demand())) return;
  step_.failure.communicating([this] {
    for (const std::size_t bucket : full_) send(bucket);
  });
  full_.clear();
  step_.figures.started(static_cast<int>(started()));
}

// If no rank has a batch there is nothing to send: the loop is over, on all ranks.
void OutgoingBuckets::send(std::size_t bucket) {
  const StepWeights& weights = step_.facts.weights();
  if (weights.total == 0) return;
  is_sent_[bucket] = true;
  for (int index : means_.layout().groups[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    if (step_.passes.has_made(i)) hide(i);
  }
  means_.send(bucket, *buckets_, weights.share(group_.rank()));
}

void OutgoingBuckets::send_the_rest() {
  step_.figures.backward_ended();
  for (std::size_t bucket = 0; bucket < is_sent_.size(); ++bucket) {
    if (is_sent_[bucket]) continue;
    fill(bucket);
    if (buckets_->is_on_demand()) send_full();
  }
  send_full();
  means_.sent_all();
}

void OutgoingBuckets::fill(std::size_t bucket) {
  const bool has_slots = contributes(bucket);
  if (has_slots) acquire(bucket, /*in_backward=*/false);
  for (int index : means_.layout().groups[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    if (step_.passes.has_filled(i)) continue;
    // Under no_sync, and not again in the pass that ended it.
    if (step_.passes.has_accumulated(i) && step_.weight.weight > 0 &&
        parameters_[i].tensor.grad().defined()) {
      claim_slot(i, true);
      step_.passes.counts(i);
    } else if (has_slots) {
      contribute_what_grad_holds(i);
    }
    count_filled(i);
  }
}

}  // namespace paceline::gradient
