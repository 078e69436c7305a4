// The memory in which gradients travel: one slot for each parameter, the slots of a bucket side by
// side. A gradient comes into its slot by being born there (bridge/gradient_hook.h), or in one
// copy.
//
// The slots of parameters on a device lie there too. Beside them each bucket has memory on the
// host, which travels; staged_means.h copies between the two.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/schedule/schedule.h"

namespace paceline::gradient {

// Memory that is given back and taken again, many times in a step. It holds about as much as was in
// use at once, so that later steps allocate nothing. THREAD: one. `group` outlives the pool; the
// memory may outlive both.
class MemoryPool {
 public:
  explicit MemoryPool(const Communicator& group) : group_(group) {}

  // At least so many bytes, of any content. THROWS Error (io).
  std::shared_ptr<Allocation> take(std::size_t bytes);
  // `bytes`: as it was taken. While other code holds it, it is not taken again.
  void give_back(std::shared_ptr<Allocation> memory, std::size_t bytes);

  // The most bytes in use at once since the last call.
  std::size_t take_peak();
  std::size_t held() const;  // bytes in use, and those that lie ready

 private:
  const Communicator& group_;
  std::vector<std::shared_ptr<Allocation>> spare_;
  std::size_t used_ = 0, peak_ = 0;
  std::size_t held_ = 0, most_ = 0;  // allocated now; in use at once, ever
};

// A cache line, the widest vector, and what libtorch's own memory has.
inline constexpr std::size_t kSlotAlignment = 64;

inline std::size_t aligned_size(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// How much memory buckets have, and how long.
struct BucketMemory {
  std::vector<std::size_t> bytes = {};  // of each bucket; empty: what its gradients take
  bool on_demand = false;               // only from acquire() to release()
};

class GradientBuckets {
 public:
  // `shapes`: of the parameters when the plan was made; those of a parameter that is converted
  // later stay. Memory is that of `group`, which outlives this. `alignment` of each slot, in bytes:
  // a multiple of all elements' sizes.
  GradientBuckets(std::vector<schedule::Bucket> plan, std::span<const at::Tensor> parameters,
                  std::span<const at::Tensor> shapes, const Communicator& group,
                  std::size_t alignment = kSlotAlignment, BucketMemory memory = {});

  const std::vector<schedule::Bucket>& plan() const { return plan_; }
  // The host memory of the bucket's gradients and, between them, zeros that align each slot.
  Buffer buffer(std::size_t bucket) const;
  at::Device device() const { return device_; }
  // The same elements where the slots lie. REQUIRES: on a device.
  const at::Tensor& on_device(std::size_t bucket) const { return on_device_[bucket]; }
  // The place in buffer() of the elements of a slot.
  std::byte* on_host(std::size_t parameter) const;
  // Multiplies all gradients of the bucket.
  void scale(std::size_t bucket, double factor) const;
  std::size_t bucket_of(std::size_t parameter) const { return bucket_of_[parameter]; }
  // Shaped like the parameter. Keeps the memory alive by itself, so a grad may outlive this object.
  const at::Tensor& slot(std::size_t parameter) const { return slots_[parameter]; }
  bool contains(const void* address) const;
  // Whether the slot is not the parameter's grad, and other code holds it, such as a kept
  // `auto g = p.grad()` of an earlier step: the next gradient must not overwrite it.
  bool is_kept_elsewhere(std::size_t parameter) const;

  // The slot's memory, for the parameter's next gradient to be computed into
  // (GradientEvents::gradient_memory); null where other code holds it, or was seen to hold it
  // before. REQUIRES: the bucket is not on its way.
  std::shared_ptr<void> lend(std::size_t parameter);
  // Makes the slot the parameter's grad, with grad's values. True when the bucket moved to other
  // memory, because other code holds the lent memory, such as a hook that keeps gradients: then the
  // grads that were its slots are slots again. `held_elsewhere`: as
  // GradientEvents::accumulated tells. COST: nothing where grad was born or accumulated in its
  // slot, else a copy.
  bool take(std::size_t parameter, bool held_elsewhere);
  // Gives the bucket other memory, with the present values; grads that were its slots are its slots
  // again. REQUIRES: the bucket is not on its way.
  void move_elsewhere(std::size_t bucket);

  std::shared_ptr<const Allocation> memory(std::size_t bucket) const { return memory_[bucket]; }
  // Without memory a bucket has no slots, and no other call but contains() may be about them.
  bool has_memory(std::size_t bucket) const { return !on_demand_ || memory_[bucket] != nullptr; }
  bool is_on_demand() const { return on_demand_; }
  void acquire(std::size_t bucket);  // if it has none
  // Gives back memory that is there on demand. REQUIRES: no grad is a slot of it.
  void release(std::size_t bucket);
  // The most memory of all buckets at once, in bytes, since the last call.
  std::size_t take_peak_bytes();

 private:
  void lay_out(std::size_t bucket, std::byte* start);

  const Communicator& group_;
  MemoryPool pool_;  // on demand
  const bool on_demand_;
  std::size_t alignment_;
  std::vector<schedule::Bucket> plan_;
  std::vector<at::Tensor> parameters_, shapes_;
  std::vector<std::size_t> bytes_;                   // by bucket
  std::vector<std::shared_ptr<Allocation>> memory_;  // by bucket
  std::vector<std::byte*> starts_;                   // by bucket
  at::Device device_ = at::kCPU;
  std::vector<at::Tensor> on_device_;      // by bucket
  std::vector<std::size_t> offsets_;       // by parameter: of its slot in its bucket
  std::vector<std::size_t> bucket_of_;     // by parameter
  std::vector<at::Tensor> slots_;          // by parameter
  std::vector<std::weak_ptr<void>> lent_;  // by parameter
  std::vector<bool> never_again_;          // by parameter: not to be lent
};

}  // namespace paceline::gradient
