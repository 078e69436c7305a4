// Buckets on their way out: gradients come into their slots, and a bucket leaves when all of its
// gradients are there and the weights of all ranks are known.
//
// Memory that is there on demand (BucketMemory) goes from one bucket to the next: one is filled
// while another is under way. Where a backward pass is quicker than the messages, it waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/gradient/gradient_buckets.h"
#include "paceline/torch/gradient/gradient_step.h"
#include "paceline/torch/gradient/means.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::gradient {

// THREAD: one. THROWS Error, from calls that fill buckets: what ended the communication.
class OutgoingBuckets {
 public:
  // The first `dense` of the parameters may lie in buckets. All outlive this.
  OutgoingBuckets(const std::vector<replica::Parameter>& parameters, std::size_t dense,
                  Communicator& group, Means& means, GradientStep& step);
  ~OutgoingBuckets();
  OutgoingBuckets(const OutgoingBuckets&) = delete;
  OutgoingBuckets& operator=(const OutgoingBuckets&) = delete;

  const GradientBuckets& buckets() const { return *buckets_; }
  // Whether the parameter's gradient lies in a bucket; if not, it stays where autograd puts it.
  bool has(std::size_t i) const { return i < with_slots_; }

  // The memory in which its next gradient shall be computed; null: any. REQUIRES: has(i).
  std::shared_ptr<void> gradient_memory(std::size_t i);
  // Makes its slot its grad, with grad's values. REQUIRES: has(i).
  void claim_slot(std::size_t i, bool held_elsewhere);
  // Its slot holds its gradient, which belongs to the averaging until the step ends.
  void filled(std::size_t i);
  // This rank has no gradient of it in this step. REQUIRES: has(i).
  void fill_without_gradient(std::size_t i);
  // Sends what is full, once the weights are known.
  void send_full();
  // Sends all that was not sent, in this rank's last call of the step.
  void send_the_rest();

  // The bucket's memory is free, if it is there on demand.
  void release(std::size_t bucket) { buckets_->release(bucket); }
  std::size_t take_peak_bytes() { return buckets_->take_peak_bytes(); }
  // The layout of the means has changed. The model's gradients leave the old memory.
  void lay_out_anew();
  // Slots that other code keeps since the last step are overwritten by none of this one.
  void begin_step();
  void end_step();
  // The model's gradients leave the memory; with their values, or as none. Only the destructor may
  // follow.
  void let_go(bool keep_values);

 private:
  void lay_out();
  void expect_all();
  void hide(std::size_t i);
  void contribute_what_grad_holds(std::size_t i);
  bool contributes(std::size_t bucket) const;
  void acquire(std::size_t bucket, bool in_backward);
  void count_filled(std::size_t i);
  void fill(std::size_t bucket);
  void send(std::size_t bucket);
  std::size_t started() const { return means_.layout().started(is_sent_); }

  const std::vector<replica::Parameter>& parameters_;
  const std::size_t dense_;
  Communicator& group_;
  Means& means_;
  GradientStep& step_;
  const std::vector<at::Tensor> shapes_;     // of the dense parameters, without memory
  const std::vector<at::Tensor> stand_ins_;  // of the dense: their grads while gradients travel
  std::unique_ptr<GradientBuckets> buckets_;
  std::size_t with_slots_ = 0;        // parameters
  std::vector<std::size_t> missing_;  // by bucket: gradients that are not in their slots
  std::vector<std::size_t> full_;     // buckets that wait for the weights
  std::vector<bool> is_sent_;         // by bucket
};

}  // namespace paceline::gradient
