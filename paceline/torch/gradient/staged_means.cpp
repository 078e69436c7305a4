#include "paceline/torch/gradient/staged_means.h"

#include <torch/torch.h>

#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/log.h"
#include "paceline/core/job/registered_memory.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/device_copies.h"

namespace paceline::gradient {
namespace {

constexpr std::chrono::seconds kStallTime{5};

class StagedMeans final : public Means {
 public:
  StagedMeans(std::unique_ptr<Means> host, Job* job, at::Device device)
      : host_(std::move(host)), job_(job), device_(device), copies_(device) {}

  const GradientLayout& layout() const override { return host_->layout(); }

  void send(std::size_t bucket, const GradientBuckets& buckets, double share) override {
    hold(buckets.memory(bucket));
    buckets.scale(bucket, share);
    copies_.begin_to_host(buckets.on_device(bucket), host_tensor(bucket, buckets));
    leaving_.push_back({bucket, &buckets});
    send_arrived();
  }

  void sent_all() override {
    Clock::time_point told = Clock::now();
    while (!leaving_.empty()) {
      if (send_arrived()) continue;
      if (Clock::now() - told > kStallTime) {
        told = Clock::now();
        warn(c10::str("this rank waits for ", device_, " to compute the gradients of bucket ",
                      leaving_.front().bucket + 1, " of ", layout().groups.size()));
      }
      std::this_thread::yield();
    }
    host_->sent_all();
  }

  bool wait(std::size_t bucket) override { return host_->wait(bucket); }

  void hand_out(std::size_t bucket, const GradientBuckets& buckets,
                const std::vector<bool>& used) override {
    copies_.to_device(host_tensor(bucket, buckets), buckets.on_device(bucket));
    host_->hand_out(bucket, buckets, used);
  }

  bool overflow() override { return host_->overflow(); }

 private:
  struct Leaving {
    std::size_t bucket = 0;
    const GradientBuckets* buckets = nullptr;
  };

  // Whether one has.
  bool send_arrived() {
    bool any = false;
    while (!leaving_.empty() && copies_.take_arrived()) {
      const Leaving one = leaving_.front();
      leaving_.pop_front();
      host_->send(one.bucket, *one.buckets, 1);
      any = true;
    }
    return any;
  }

  at::Tensor host_tensor(std::size_t bucket, const GradientBuckets& buckets) const {
    return tensor_over(buckets.buffer(bucket).data, buckets.on_device(bucket),
                       buckets.memory(bucket));
  }

  // Memory of an earlier layout is let go of.
  void hold(std::shared_ptr<const Allocation> memory) {
    const void* const address = memory.get();
    if (held_.contains(address)) return;
    copies_.settle();
    std::erase_if(held_, [](const auto& one) { return one.second.memory.use_count() == 1; });
    Held& held = held_[address];
    held.memory = std::move(memory);
    if (job_ == nullptr) return;
    held.by_device =
        std::make_unique<job::RegisteredMemory>(*job_, device_.index(), held.memory->bytes());
  }
  struct Held {
    std::shared_ptr<const Allocation> memory;
    std::unique_ptr<job::RegisteredMemory> by_device;
  };

  const std::unique_ptr<Means> host_;
  Job* const job_;
  const at::Device device_;
  std::map<const void*, Held> held_;  // by address of the allocation; copies read and write it
  std::deque<Leaving> leaving_;       // on their way to the host
  DeviceCopies copies_;               // ends before the memory is let go of
};

}  // namespace

std::unique_ptr<Means> make_staged_means(std::unique_ptr<Means> host, Job* job,
                                         const std::vector<replica::Parameter>& parameters) {
  return std::make_unique<StagedMeans>(std::move(host), job, parameters.front().tensor.device());
}

}  // namespace paceline::gradient
