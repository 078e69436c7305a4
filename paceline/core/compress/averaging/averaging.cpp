#include "paceline/core/compress/averaging/averaging.h"

#include <algorithm>

#include "paceline/core/compress/averaging/cast_average.h"
#include "paceline/core/compress/averaging/residual.h"

namespace paceline::compress {
namespace {

class WholeAverage final : public Averaging {
 public:
  explicit WholeAverage(const AveragedTensor& part)
      : mean_(cast_average(part, Dtype::f32)), held_back_(true, part.elements()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    if (may_hold_) held_back_.add_to(gradient);
    return mean_->begin(gradient, step);
  }

  Result<std::optional<Exchange>> next() override { return mean_->next(); }
  bool overflowed() const override { return mean_->overflowed(); }

  Result<> finish() override {
    if (may_hold_) std::ranges::fill(held_back_.values(), 0.0F);
    may_hold_ = false;
    return Done();
  }

  // A caller may write into the views.
  std::vector<StateView> state() override {
    may_hold_ = true;
    return held_back_.state();
  }

 private:
  const std::unique_ptr<Averaging> mean_;
  Residual held_back_;
  bool may_hold_ = false;
};

}  // namespace

std::unique_ptr<Averaging> whole_average(const AveragedTensor& part) {
  return std::make_unique<WholeAverage>(part);
}

}  // namespace paceline::compress
