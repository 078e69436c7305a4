#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/averaging/two_stage_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

// 1-bit Adam (Tang et al. 2021): once Adam's variance has settled, momenta are averaged instead of
// gradients, by signs both ways (two_stage_average.h).
//
// The result is not a mean gradient but Adam's direction, momentum / (sqrt(variance) + epsilon),
// for plain SGD to apply. Before freeze_step the steps are Adam of the dense mean, without bias
// correction as in the authors' program; from freeze_step on the variance is frozen.
struct OneBitAdamOptions {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  std::uint32_t freeze_step = 100000;
};

class OneBitAdamAverage final : public Averaging {
 public:
  OneBitAdamAverage(const AveragedTensor& part, const OneBitAdamOptions& options)
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

OneBitAdamOptions options(const Settings& settings) {
  return {.beta1 = settings.as<float>("beta1"),
          .beta2 = settings.as<float>("beta2"),
          .epsilon = settings.as<float>("epsilon"),
          .freeze_step = settings.as<std::uint32_t>("freeze_step")};
}

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  return std::make_unique<OneBitAdamAverage>(part, options(settings));
}

std::unique_ptr<Averaging> make_small(const AveragedTensor& part, const Settings& settings) {
  OneBitAdamOptions never = options(settings);
  never.freeze_step = std::numeric_limits<std::uint32_t>::max();
  return std::make_unique<OneBitAdamAverage>(part, never);
}

}  // namespace

Method one_bit_adam() {
  return {.name = "one_bit_adam",
          .summary = "Adam whose momentum travels as signs once its variance is frozen",
          .reference = "Tang et al., 1-bit Adam, ICML 2021",
          .settings = {{.name = "freeze_step",
                        .standard = 100000,
                        .least = 0,
                        .most = 1e9,
                        .meaning = "step from which on the variance stays the same",
                        .whole = true},
                       {.name = "beta1",
                        .standard = 0.9,
                        .least = 0,
                        .most = 0.9999,
                        .meaning = "decay of the momentum"},
                       {.name = "beta2",
                        .standard = 0.999,
                        .least = 0,
                        .most = 0.99999,
                        .meaning = "decay of the variance"},
                       {.name = "epsilon",
                        .standard = 1e-08,
                        .least = 0,
                        .most = 1,
                        .meaning = "added to the root of the variance"}},
          .make = make,
          .make_small = make_small,
          .outcome = Method::Outcome::direction,
          .learning_rate = 0.001};
}

}  // namespace paceline::compress::catalogue
