#include "paceline/torch/gradient/means.h"

#include <torch/torch.h>

#include "paceline/torch/gradient/scheduled_path.h"

namespace paceline::gradient {
namespace {

// A rank that has no peers: its gradients are the means, and stay where autograd puts them. There
// is no bucket, so nothing is ever sent or waited for.
class OwnMeans final : public Means {
 public:
  const GradientLayout& layout() const override { return no_buckets_; }
  void send(std::size_t, const GradientBuckets&, double) override {}
  void sent_all() override {}
  bool wait(std::size_t) override { return true; }
  void hand_out(std::size_t, const GradientBuckets&, const std::vector<bool>&) override {}
  bool overflow() override { return false; }

 private:
  const GradientLayout no_buckets_;
};

// Buckets travel over a path, and each rank gets all of their means.
class WholeMeans final : public Means {
 public:
  WholeMeans(ScheduledPath& path, const std::vector<replica::Parameter>& parameters)
      : path_(path), parameters_(parameters) {}

  const GradientLayout& layout() const override { return path_.layout(); }

  void send(std::size_t bucket, const GradientBuckets& buckets, double share) override {
    if (path_.schedule().sees_gradients()) observe(bucket, buckets);
    buckets.scale(bucket, share);
    path_.path().load(static_cast<int>(bucket), buckets.buffer(bucket));
    const auto members = static_cast<int>(layout().groups[bucket].gradients.size());
    for (int place = 0; place < members; ++place) path_.path().ready(first_place(bucket) + place);
  }

  void sent_all() override {}

  bool wait(std::size_t bucket) override {
    path_.path().wait(first_place(bucket));
    return !path_.path().take_overflow(static_cast<int>(bucket));
  }

  void hand_out(std::size_t bucket, const GradientBuckets& buckets,
                const std::vector<bool>& used) override {
    for (int index : layout().groups[bucket].gradients) {
      const auto i = static_cast<std::size_t>(index);
      if (used[i]) parameters_[i].tensor.mutable_grad() = buckets.slot(i);
    }
  }

  bool overflow() override { return false; }

 private:
  int first_place(std::size_t bucket) const { return layout().plan.groups[bucket].begin; }

  // Gradients that are compressed are of f32.
  void observe(std::size_t bucket, const GradientBuckets& buckets) {
    for (int index : layout().groups[bucket].gradients) {
      const auto i = static_cast<std::size_t>(index);
      path_.schedule().see(i, {reinterpret_cast<const float*>(buckets.on_host(i)),
                               static_cast<std::size_t>(buckets.slot(i).numel())});
    }
  }

  ScheduledPath& path_;
  const std::vector<replica::Parameter>& parameters_;
};

}  // namespace

std::unique_ptr<Means> make_own_means() {
  return std::make_unique<OwnMeans>();
}

std::unique_ptr<Means> make_whole_means(ScheduledPath& path,
                                        const std::vector<replica::Parameter>& parameters) {
  return std::make_unique<WholeMeans>(path, parameters);
}

}  // namespace paceline::gradient
