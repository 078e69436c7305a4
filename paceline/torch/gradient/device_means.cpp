#include "paceline/torch/gradient/device_means.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/cast_buckets.h"
#include "paceline/torch/gradient/scheduled_path.h"

namespace paceline::gradient {
namespace {

class DeviceMeans final : public Means {
 public:
  DeviceMeans(std::unique_ptr<Means> staged, ScheduledPath& path,
              const std::vector<replica::Parameter>& parameters)
      : staged_(std::move(staged)), path_(path), casts_(path), parameters_(parameters) {}

  const GradientLayout& layout() const override { return staged_->layout(); }

  void send(std::size_t bucket, const GradientBuckets& buckets, double share) override {
    if (!stays_on_device(bucket)) return staged_->send(bucket, buckets, share);
    buckets.scale(bucket, share);
    if (casts_.takes(bucket)) casts_.load(bucket, buckets);
    else path_.path().load(static_cast<int>(bucket), buffer_of(buckets.on_device(bucket)));
    const auto members = static_cast<int>(layout().groups[bucket].gradients.size());
    for (int place = 0; place < members; ++place) path_.path().ready(first_place(bucket) + place);
  }

  void sent_all() override { staged_->sent_all(); }

  bool wait(std::size_t bucket) override {
    if (!stays_on_device(bucket)) return staged_->wait(bucket);
    path_.path().wait(first_place(bucket));
    return !casts_.takes(bucket) || casts_.are_finite(bucket);
  }

  void hand_out(std::size_t bucket, const GradientBuckets& buckets,
                const std::vector<bool>& used) override {
    if (!stays_on_device(bucket)) return staged_->hand_out(bucket, buckets, used);
    if (casts_.takes(bucket)) casts_.unpack(bucket, buckets);
    for (int index : layout().groups[bucket].gradients) {
      const auto i = static_cast<std::size_t>(index);
      if (used[i]) parameters_[i].tensor.mutable_grad() = buckets.slot(i);
    }
  }

  bool overflow() override { return staged_->overflow(); }

 private:
  bool stays_on_device(std::size_t bucket) const {
    const schedule::MessageGroup& group = layout().plan.groups[bucket];
    return (group.codec == schedule::kUncompressed || casts_.takes(bucket)) &&
           group.path == schedule::Path::all_to_all && !path_.schedule().sees_gradients();
  }
  int first_place(std::size_t bucket) const { return layout().plan.groups[bucket].begin; }

  const std::unique_ptr<Means> staged_;
  ScheduledPath& path_;
  CastBuckets casts_;
  const std::vector<replica::Parameter>& parameters_;
};

}  // namespace

std::unique_ptr<Means> make_device_means(std::unique_ptr<Means> staged, ScheduledPath& path,
                                         const std::vector<replica::Parameter>& parameters) {
  return std::make_unique<DeviceMeans>(std::move(staged), path, parameters);
}

}  // namespace paceline::gradient
