#include "paceline/core/compress/averaging/one_bit_adam_average.h"

#include <algorithm>
#include <cmath>

#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/averaging/two_stage_average.h"

namespace paceline::compress {
namespace {

class OneBitAdamAverage final : public Averaging {
 public:
  OneBitAdamAverage(const Part& part, const OneBitAdamOptions& options)
      : options_(options),
        signs_(two_stage_average(part)),
        momentum_(part.elements()),
        variance_(part.elements()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    overflowed_ = false;
    frozen_ = step >= options_.freeze_step;
    if (!frozen_) {
      return Exchange{.kind = Exchange::Kind::all_reduce,
                      .input = buffer_of(gradient),
                      .output = buffer_of(gradient),
                      .op = ReduceOp::average};
    }
    moved_momentum(gradient);
    return signs_->begin(gradient, step);
  }

  Result<std::optional<Exchange>> next() override {
    if (frozen_) return signs_->next();
    overflowed_ = !all_finite(gradient_);
    return std::optional<Exchange>();
  }

  bool overflowed() const override { return frozen_ ? signs_->overflowed() : overflowed_; }

  Result<> finish() override {
    if (frozen_) {
      if (const auto done = signs_->finish(); !done) return done;
    } else {
      const float fresh = 1 - options_.beta2;
      for (std::size_t i = 0; i < gradient_.size(); ++i)
        variance_[i] = options_.beta2 * variance_[i] + fresh * gradient_[i] * gradient_[i];
      moved_momentum(gradient_);
    }
    std::ranges::copy(gradient_, momentum_.begin());
    // Elements that never had a gradient have no variance; without this, signs would move them for
    // ever.
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      gradient_[i] =
          variance_[i] > 0 ? momentum_[i] / (std::sqrt(variance_[i]) + options_.epsilon) : 0;
    }
    return Done();
  }

  std::vector<StateView> state() override {
    std::vector<StateView> views = signs_->state();
    views.push_back({StateView::Sharing::equal, "momentum", momentum_});
    views.push_back({StateView::Sharing::equal, "variance", variance_});
    return views;
  }

 private:
  // gradient = beta1 * momentum + (1 - beta1) * gradient.
  void moved_momentum(std::span<float> gradient) const {
    const float fresh = 1 - options_.beta1;
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = options_.beta1 * momentum_[i] + fresh * gradient[i];
  }

  const OneBitAdamOptions options_;
  const std::unique_ptr<Averaging> signs_;  // of momenta
  std::vector<float> momentum_, variance_;
  std::span<float> gradient_;
  bool frozen_ = false;
  bool overflowed_ = false;
};

}  // namespace

std::unique_ptr<Averaging> one_bit_adam_average(const Part& part,
                                                const OneBitAdamOptions& options) {
  return std::make_unique<OneBitAdamAverage>(part, options);
}

}  // namespace paceline::compress
