#include "paceline/core/compress/averaging/momentum_average.h"

#include "paceline/core/compress/averaging/cast_average.h"

namespace paceline::compress {
namespace {

class MomentumAverage final : public Averaging {
 public:
  MomentumAverage(const Part& part, float momentum, bool nesterov)
      : factor_(momentum),
        nesterov_(nesterov),
        mean_(cast_average(part, Dtype::f32)),
        momentum_(part.elements()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    return mean_->begin(gradient, step);
  }

  Result<std::optional<Exchange>> next() override { return mean_->next(); }
  bool overflowed() const override { return mean_->overflowed(); }

  Result<> finish() override {
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      momentum_[i] = factor_ * momentum_[i] + gradient_[i];
      gradient_[i] = nesterov_ ? gradient_[i] + factor_ * momentum_[i] : momentum_[i];
    }
    return Done();
  }

  std::vector<StateView> state() override {
    return {{StateView::Sharing::equal, "momentum", momentum_}};
  }

 private:
  const float factor_;
  const bool nesterov_;
  const std::unique_ptr<Averaging> mean_;
  std::vector<float> momentum_;
  std::span<float> gradient_;
};

}  // namespace

std::unique_ptr<Averaging> momentum_average(const Part& part, float momentum, bool nesterov) {
  return std::make_unique<MomentumAverage>(part, momentum, nesterov);
}

}  // namespace paceline::compress
