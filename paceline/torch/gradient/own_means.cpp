// A rank that has no peers: its gradients are the means, and stay where autograd puts them.
#include "paceline/torch/gradient/means.h"

namespace paceline::parallel {
namespace {

// There is no bucket, so nothing is ever sent or waited for.
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

}  // namespace

std::unique_ptr<Means> make_own_means() {
  return std::make_unique<OwnMeans>();
}

}  // namespace paceline::parallel
