#include "paceline/core/compress/momentum_average.h"

#include "paceline/core/compress/residual.h"

namespace paceline::compress {
namespace {

class MomentumAverage final : public Averaging {
 public:
  MomentumAverage(const Part& part, float momentum, bool nesterov)
      : factor_(momentum), nesterov_(nesterov), momentum_(part.elements()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t) override {
    gradient_ = gradient;
    return Exchange{.kind = Exchange::Kind::all_reduce,
                    .input = buffer_of(gradient),
                    .output = buffer_of(gradient),
                    .op = ReduceOp::average};
  }

  Result<std::optional<Exchange>> next() override {
    overflowed_ = !all_finite(gradient_);
    return std::optional<Exchange>();
  }

  bool overflowed() const override { return overflowed_; }

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
  std::vector<float> momentum_;
  std::span<float> gradient_;
  bool overflowed_ = false;
};

}  // namespace

std::unique_ptr<Averaging> momentum_average(const Part& part, float momentum, bool nesterov) {
  return std::make_unique<MomentumAverage>(part, momentum, nesterov);
}

}  // namespace paceline::compress
