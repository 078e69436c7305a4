// This rank's pieces of mean gradients: each bucket is reduced to the owners of its pieces, as it
// is or in 16 bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/gradient/gradient.h"
#include "paceline/torch/shard/unit_memory.h"
#include "paceline/torch/shard/units.h"

namespace paceline::shard {

// A reduce_scatter makes the sums of an all_reduce, in the same order: reproducible communicators
// add in a balanced tree of ranks, whichever operation it is.
class GradientPieces final : public gradient::Means {
 public:
  // `lane` is for these messages alone, and `watched` watches them. `wire`: the type in which
  // gradients of f32 travel, f16 or bf16; none: their own. `keeps_memory`: pieces are parts of the
  // buckets' memory. `leaves` get the gradients, and `parameters`, the dense ones, what stands for
  // gradients elsewhere. `sent_all` is called as Means::sent_all is. All outlive this.
  GradientPieces(const Units& units, Communicator& lane, const replica::WatchedLane& watched,
                 std::optional<Dtype> wire, bool keeps_memory,
                 const std::vector<replica::Parameter>& parameters, const std::vector<Leaf>& leaves,
                 std::function<void()> sent_all);

  const gradient::GradientLayout& layout() const override { return layout_; }
  void send(std::size_t bucket, const gradient::GradientBuckets& buckets, double share) override;
  void sent_all() override { sent_all_(); }
  bool wait(std::size_t bucket) override;
  void hand_out(std::size_t bucket, const gradient::GradientBuckets& buckets,
                const std::vector<bool>& used) override;
  bool overflow() override;

  // No gradient of an earlier step is there any more. Called when a step has ended.
  void end_step();
  // Gives back all memory; no call but the destructor may follow.
  void release();

 private:
  struct Message {
    bool is_ready = false, is_home = false;
    Buffer gradients = {};  // no data: zeros
    std::shared_ptr<const void> memory = {};
    replica::WatchedLane::Call call = {};
  };
  void start(std::size_t bucket);
  ConstBuffer as_sent(std::size_t bucket);
  ConstBuffer zeros(std::size_t bucket);
  Buffer piece(std::size_t bucket) const;
  Buffer piece_on_wire(std::size_t bucket) const;
  void wait_for(std::size_t bucket);
  void widen_piece(std::size_t bucket);
  void drop_grads();

  const Units& units_;
  Communicator& lane_;
  const replica::WatchedLane watched_;
  const std::optional<Dtype> wire_;
  const bool keeps_memory_;
  const std::vector<replica::Parameter>& parameters_;
  const std::vector<Leaf>& leaves_;
  const std::function<void()> sent_all_;
  gradient::GradientLayout layout_;
  std::vector<at::Tensor>
      elsewhere_;  // by parameter: its grad from hand_out() on, once it was made
  std::vector<std::shared_ptr<Allocation>> pieces_;  // by bucket; null: part of the bucket
  std::vector<std::shared_ptr<Allocation>> halves_;  // by bucket: pieces as they travelled
  std::shared_ptr<Allocation> zeros_;                // as long as the largest bucket
  std::vector<Message> messages_;                    // by bucket
  std::size_t started_ = 0;
  bool has_overflowed_ = false;  // a piece of this step, of this rank
};

}  // namespace paceline::shard
