#include "paceline/core/compress/whole_average.h"

#include <algorithm>

#include "paceline/core/compress/residual.h"

namespace paceline::compress {
namespace {

class WholeAverage final : public Averaging {
 public:
  explicit WholeAverage(const Part& part) : held_back_(true, part.elements()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t) override {
    gradient_ = gradient;
    if (may_hold_) held_back_.add_to(gradient);
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
    if (may_hold_) std::ranges::fill(held_back_.values(), 0.0F);
    may_hold_ = false;
    return Done();
  }

  // Who has the views may write into them.
  std::vector<StateView> state() override {
    may_hold_ = true;
    return held_back_.state();
  }

 private:
  Residual held_back_;
  bool may_hold_ = false;
  std::span<float> gradient_;
  bool overflowed_ = false;
};

}  // namespace

std::unique_ptr<Averaging> whole_average(const Part& part) {
  return std::make_unique<WholeAverage>(part);
}

}  // namespace paceline::compress
