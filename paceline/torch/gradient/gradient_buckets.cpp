#include "paceline/torch/gradient/gradient_buckets.h"

#include <torch/torch.h>

#include <algorithm>
#include <any>
#include <numeric>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::gradient {
namespace {

// Units of nearly the same size share memory.
std::size_t rounded(std::size_t bytes) {
  const std::size_t granule =
      bytes < (std::size_t{1} << 20) ? std::size_t{1} << 12 : std::size_t{1} << 16;
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

std::shared_ptr<Allocation> MemoryPool::take(std::size_t bytes) {
  auto best = spare_.end();
  for (auto each = spare_.begin(); each != spare_.end(); ++each) {
    const bool fits = each->use_count() == 1 && (*each)->size() >= bytes;
    if (fits && (best == spare_.end() || (*each)->size() < (*best)->size())) best = each;
  }
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  most_ = std::max(most_, used_);
  if (best != spare_.end()) {
    auto memory = std::move(*best);
    spare_.erase(best);
    return memory;
  }
  const std::size_t size = rounded(bytes);
  while (!spare_.empty() && held_ + size > rounded(most_)) {
    held_ -= spare_.back()->size();
    spare_.pop_back();
  }
  auto memory = std::make_shared<Allocation>(group_.allocate(size));
  held_ += memory->size();
  return memory;
}

void MemoryPool::give_back(std::shared_ptr<Allocation> memory, std::size_t bytes) {
  used_ -= bytes;
  spare_.push_back(std::move(memory));
}

std::size_t MemoryPool::take_peak() {
  return std::exchange(peak_, used_);
}

std::size_t MemoryPool::held() const {
  return held_;
}

GradientBuckets::GradientBuckets(std::vector<schedule::Bucket> plan,
                                 std::span<const at::Tensor> parameters,
                                 std::span<const at::Tensor> shapes, const Communicator& group,
                                 std::size_t alignment, BucketMemory memory)
    : group_(group),
      pool_(group),
      on_demand_(memory.on_demand),
      alignment_(alignment),
      plan_(std::move(plan)),
      parameters_(parameters.begin(), parameters.end()),
      shapes_(shapes.begin(), shapes.end()),
      starts_(plan_.size()),
      device_(parameters.empty() ? at::Device(at::kCPU) : parameters.front().device()),
      on_device_(plan_.size()),
      offsets_(parameters.size()),
      bucket_of_(parameters.size()),
      slots_(parameters.size()),
      lent_(parameters.size()),
      never_again_(parameters.size()) {
  bytes_ = std::move(memory.bytes);
  if (bytes_.empty()) {
    for (const schedule::Bucket& bucket : plan_) {
      bytes_.push_back(0);
      for (int index : bucket.gradients)
        bytes_.back() +=
            aligned_size(shapes_[static_cast<std::size_t>(index)].nbytes(), alignment_);
    }
  }
  memory_.resize(plan_.size());
  const std::size_t total = std::accumulate(bytes_.begin(), bytes_.end(), std::size_t{0});
  if (total > 0 && !on_demand_)
    memory_.assign(plan_.size(), std::make_shared<Allocation>(group_.allocate(total)));

  std::size_t start = 0;
  for (std::size_t b = 0; b < plan_.size(); ++b) {
    for (int index : plan_[b].gradients) bucket_of_[static_cast<std::size_t>(index)] = b;
    if (memory_[b]) lay_out(b, memory_[b]->data() + start);
    start += bytes_[b];
  }
}

void GradientBuckets::lay_out(std::size_t bucket, std::byte* start) {
  starts_[bucket] = start;
  std::any owner = memory_[bucket];
  if (!device_.is_cpu()) {
    const Buffer all = buffer(bucket);
    on_device_[bucket] = at::zeros({static_cast<std::int64_t>(all.count)},
                                   at::TensorOptions(scalar_type_of(all.dtype)).device(device_));
    start = static_cast<std::byte*>(on_device_[bucket].mutable_data_ptr());
    owner = on_device_[bucket];
  }
  std::size_t offset = 0;
  for (int index : plan_[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    offsets_[i] = offset;
    slots_[i] = tensor_over(start + offset, shapes_[i], owner, device_);
    offset += aligned_size(shapes_[i].nbytes(), alignment_);
  }
}

std::byte* GradientBuckets::on_host(std::size_t parameter) const {
  return starts_[bucket_of_[parameter]] + offsets_[parameter];
}

Buffer GradientBuckets::buffer(std::size_t bucket) const {
  const Dtype dtype = plan_[bucket].dtype;
  return {starts_[bucket], bytes_[bucket] / size_of(dtype), dtype};
}

void GradientBuckets::scale(std::size_t bucket, double factor) const {
  if (factor == 1) return;
  if (!device_.is_cpu()) {
    at::Tensor(on_device_[bucket]).mul_(factor);
    return;
  }
  const Buffer gradients = buffer(bucket);
  paceline::scale(gradients.dtype, {gradients.data, gradients.size_bytes()}, factor);
}

bool GradientBuckets::contains(const void* address) const {
  const auto is_within = [address](const std::byte* begin, std::size_t bytes) {
    return address >= begin && address < begin + bytes;
  };
  if (!device_.is_cpu()) {
    return std::ranges::any_of(on_device_, [&](const at::Tensor& one) {
      return is_within(static_cast<const std::byte*>(one.const_data_ptr()), one.nbytes());
    });
  }
  return std::ranges::any_of(memory_, [&](const auto& memory) {
    return memory && is_within(memory->data(), memory->size());
  });
}

// A copy of the handle counts as a user of the tensor, a view or a detached copy as one of its
// storage.
bool GradientBuckets::is_kept_elsewhere(std::size_t parameter) const {
  const at::Tensor& slot = slots_[parameter];
  if (!slot.defined() || parameters_[parameter].grad().is_same(slot)) return false;
  return slot.use_count() > 1 || slot.storage().use_count() > 1;
}

std::shared_ptr<void> GradientBuckets::lend(std::size_t parameter) {
  if (!device_.is_cpu() || never_again_[parameter] || !lent_[parameter].expired() ||
      is_kept_elsewhere(parameter))
    return nullptr;
  const std::shared_ptr<void> lent(slots_[parameter].mutable_data_ptr(),
                                   [memory = memory_[bucket_of_[parameter]]](void*) {});
  lent_[parameter] = lent;
  return lent;
}

bool GradientBuckets::take(std::size_t parameter, bool held_elsewhere) {
  at::Tensor& grad = parameters_[parameter].mutable_grad();
  if (grad.device() != device_) {
    throw_misuse(c10::str("DataParallel was made of a model on ", device_,
                          ", and a gradient came on ", grad.device(),
                          ": move the model before DataParallel is made, or call rebind() after"));
  }
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
  if (device_.is_cpu()) {
    memory_[bucket] = std::make_shared<Allocation>(group_.allocate(bytes_[bucket]));
    starts_[bucket] = memory_[bucket]->data();
  }
  lay_out(bucket, starts_[bucket]);
  for (int index : plan.gradients) {
    const auto i = static_cast<std::size_t>(index);
    slots_[i].copy_(old[i]);
    at::Tensor& grad = parameters_[i].mutable_grad();
    if (grad.defined() && is_same_memory(grad, old[i])) grad = slots_[i];
    lent_[i].reset();
  }
}

void GradientBuckets::acquire(std::size_t bucket) {
  if (has_memory(bucket)) return;
  memory_[bucket] = pool_.take(bytes_[bucket]);
  std::byte* const start = memory_[bucket]->data();
  lay_out(bucket, start);
  // The gaps between gradients travel with them, so they hold no left-over.
  std::size_t used = 0;
  const auto clear = [&](std::size_t from, std::size_t to) {
    std::fill(start + from, start + to, std::byte{0});
  };
  for (int index : plan_[bucket].gradients) {
    const std::size_t bytes = shapes_[static_cast<std::size_t>(index)].nbytes();
    clear(used + bytes, used + aligned_size(bytes, alignment_));
    used += aligned_size(bytes, alignment_);
  }
  clear(used, bytes_[bucket]);
}

void GradientBuckets::release(std::size_t bucket) {
  if (!on_demand_ || memory_[bucket] == nullptr) return;
  starts_[bucket] = nullptr;
  for (int index : plan_[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    slots_[i].reset();
    lent_[i].reset();
  }
  pool_.give_back(std::move(memory_[bucket]), bytes_[bucket]);
  memory_[bucket].reset();
}

std::size_t GradientBuckets::take_peak_bytes() {
  if (!on_demand_) return std::accumulate(bytes_.begin(), bytes_.end(), std::size_t{0});
  return pool_.take_peak();
}

}  // namespace paceline::gradient
