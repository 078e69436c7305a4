// The Reducer carries one step after the other from autograd's events to mean gradients
// (specification D2).
//
//   birthplace (from the allocator)         lets the gradient be computed in its slot
//   arriving/accumulated (from the hooks)   moves the gradient into its slot, if it is not there;
//                                           a bucket whose gradients are all there starts to
//                                           travel, in strict bucket order, so that all ranks start
//                                           the same operations in the same order
//   finish (from synchronize)               starts what is left, waits, and hands the means to the
//   parameters
//
// Which parameters a rank used, and its weight, travel as the all_reduce's note: the data of a
// message are gradients alone, and there is no other collective. (D2 speaks of a trailer in the
// data; the note is the same facts outside of it.) A world of one moves nothing: gradients stay
// where autograd put them, only the checks for misuse remain.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/collective/communicator.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/parallel/data_parallel.h"
#include "paceline/torch/parallel/gradient_buckets.h"

namespace paceline::parallel {

struct Parameter {
  std::string name;
  at::Tensor tensor;
};

class Reducer {
 public:
  struct Outcome {
    double total_weight = 0;
    int root = -1;  // the lowest rank whose weight is not 0; -1: there is none
  };

  Reducer(std::vector<Parameter> parameters, Communicator& group, Job* job,
          const DataParallelOptions& options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  void set_weight(double weight);
  double weight() const { return weight_; }
  void pause();  // hooks only accumulate
  void resume();
  Outcome finish();

  const std::vector<schedule::Bucket>& plan() const { return buckets_->plan(); }
  const StepReport& report() const { return report_; }

 private:
  // What is remembered of a parameter from its gradient's arrival to the end of the step.
  struct Progress {
    bool fired = false;        // its gradient was made in this step
    bool accumulated = false;  // a gradient was made while paused
    std::uint32_t parameter_version = 0;
    std::uint64_t parameter_probe = 0;
    const void* gradient = nullptr;  // which tensor grad was, and at which version
    std::uint32_t gradient_version = 0;
  };

  bool arriving(std::size_t i);
  void accumulated(std::size_t i, bool held_elsewhere);
  std::shared_ptr<void> birthplace(std::size_t i);
  void take(std::size_t i, bool held_elsewhere);
  void note_gradient(std::size_t i);
  void fill_unfired(std::size_t bucket);
  void launch_ready_buckets();
  void launch(std::size_t bucket);
  Outcome collect();
  void begin(int backward);
  void end();
  void rebuild();
  std::string changed_since_backward() const;
  bool parameter_changed(std::size_t i) const;
  std::vector<std::byte> note_of(std::size_t bucket) const;
  bool alone() const { return group_.size() == 1; }

  std::vector<Parameter> parameters_;
  Communicator& group_;
  Job* job_;
  schedule::BucketCaps caps_;
  std::vector<schedule::Gradient> shapes_;  // what plan_buckets wants to know
  std::unique_ptr<GradientBuckets> buckets_;
  std::vector<GradientHook> hooks_;

  double weight_ = 1;
  bool weight_told_ = false;
  bool paused_ = false;
  bool rebuilt_ = false;

  bool open_ = false;               // in a step: from the first gradient to finish()
  int backward_ = -1;               // the backward pass that the step belongs to
  std::vector<Progress> progress_;  // by parameter
  std::vector<int> ready_order_;
  std::vector<std::size_t> missing_;  // by bucket: gradients that are not in their slots
  std::vector<Work> works_;           // by bucket, as far as launched
  std::exception_ptr failure_;        // of the communication: final
  StepReport report_, current_;
};

}  // namespace paceline::parallel
