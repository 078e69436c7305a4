#include "paceline/torch/gradient/gradient_buckets.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::parallel {

GradientBuckets::GradientBuckets(std::vector<schedule::Bucket> plan,
                                 std::span<const at::Tensor> parameters,
                                 std::span<const at::Tensor> shapes, const Communicator& group,
                                 std::size_t alignment)
    : group_(group),
      alignment_(alignment),
      plan_(std::move(plan)),
      parameters_(parameters.begin(), parameters.end()),
      shapes_(shapes.begin(), shapes.end()),
      starts_(plan_.size()),
      bucket_of_(parameters.size()),
      slots_(parameters.size()),
      lent_(parameters.size()),
      never_again_(parameters.size()) {
  std::size_t total = 0;
  for (const schedule::Bucket& bucket : plan_) total += laid_out_bytes(bucket);
  if (total > 0) memory_.assign(plan_.size(), std::make_shared<Allocation>(group_.allocate(total)));

  std::size_t start = 0;
  for (std::size_t b = 0; b < plan_.size(); ++b) {
    for (int index : plan_[b].gradients) bucket_of_[static_cast<std::size_t>(index)] = b;
    lay_out(b, memory_[b]->data() + start);
    start += laid_out_bytes(plan_[b]);
  }
}

std::size_t GradientBuckets::laid_out_bytes(const schedule::Bucket& bucket) const {
  std::size_t bytes = 0;
  for (int index : bucket.gradients)
    bytes += aligned_size(shapes_[static_cast<std::size_t>(index)].nbytes(), alignment_);
  return bytes;
}

void GradientBuckets::lay_out(std::size_t bucket, std::byte* start) {
  starts_[bucket] = start;
  for (int index : plan_[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    slots_[i] = tensor_over(start, shapes_[i], memory_[bucket]);
    start += aligned_size(shapes_[i].nbytes(), alignment_);
  }
}

Buffer GradientBuckets::buffer(std::size_t bucket) const {
  const Dtype dtype = plan_[bucket].dtype;
  return {starts_[bucket], laid_out_bytes(plan_[bucket]) / size_of(dtype), dtype};
}

bool GradientBuckets::contains(const void* address) const {
  return std::ranges::any_of(memory_, [=](const auto& memory) {
    return address >= memory->data() && address < memory->data() + memory->size();
  });
}

// A copy of the handle counts as a user of the tensor, a view or a detached copy as one of its
// storage.
bool GradientBuckets::is_kept_elsewhere(std::size_t parameter) const {
  const at::Tensor& slot = slots_[parameter];
  if (parameters_[parameter].grad().is_same(slot)) return false;
  return slot.use_count() > 1 || slot.storage().use_count() > 1;
}

std::shared_ptr<void> GradientBuckets::lend(std::size_t parameter) {
  if (never_again_[parameter] || !lent_[parameter].expired() || is_kept_elsewhere(parameter))
    return nullptr;
  const std::shared_ptr<void> lent(slots_[parameter].mutable_data_ptr(),
                                   [memory = memory_[bucket_of_[parameter]]](void*) {});
  lent_[parameter] = lent;
  return lent;
}

bool GradientBuckets::take(std::size_t parameter, bool held_elsewhere) {
  at::Tensor& grad = parameters_[parameter].mutable_grad();
  const bool in_slot = grad.const_data_ptr() == slots_[parameter].const_data_ptr();
  const bool spoilt = !lent_[parameter].expired() && (!in_slot || held_elsewhere);
  if (spoilt) {
    never_again_[parameter] = true;
    move_elsewhere(bucket_of_[parameter]);
  }
  at::Tensor& slot = slots_[parameter];
  if (!is_same_memory(grad, slot)) slot.copy_(in_slot ? grad.clone() : grad);
  grad = slot;
  return spoilt;
}

void GradientBuckets::move_elsewhere(std::size_t bucket) {
  const schedule::Bucket& plan = plan_[bucket];
  const auto old = slots_;
  memory_[bucket] = std::make_shared<Allocation>(group_.allocate(laid_out_bytes(plan)));
  lay_out(bucket, memory_[bucket]->data());
  for (int index : plan.gradients) {
    const auto i = static_cast<std::size_t>(index);
    slots_[i].copy_(old[i]);
    at::Tensor& grad = parameters_[i].mutable_grad();
    if (grad.defined() && is_same_memory(grad, old[i])) grad = slots_[i];
    lent_[i].reset();
  }
}

}  // namespace paceline::parallel
