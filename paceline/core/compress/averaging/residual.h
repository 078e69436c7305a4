// Error feedback: the loss of compressing a gradient is added to the next one.
//
// With acc = gradient + residual and D the decoding of the sent bytes, the next residual is acc -
// D(sent). So nothing is lost: over any steps, the sum of the means and the mean of the last
// residuals add up to the sum of the mean gradients.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

// The residual of one tensor on one rank. Without feedback it is empty, and all calls do nothing.
class Residual {
 public:
  Residual(bool feedback, std::size_t elements)
      : values_(feedback ? std::make_unique<float[]>(elements) : nullptr),
        elements_(feedback ? elements : 0) {}

  // Takes its memory from `spares`; replace_by() returns it.
  Residual(bool feedback, std::size_t elements, SpareMemory& spares);

  bool kept() const { return elements_ > 0; }
  // gradient += residual, which makes acc.
  void add_to(std::span<float> gradient) const;
  // residual = acc - residual. The caller has decoded the sent bytes into values(), which is free
  // for them because acc already contains the former residual.
  void keep_rest_of(std::span<const float> acc);
  // residual = acc, except that the elements `sent`, which travelled exactly, become 0.
  void keep_all_but(std::span<const float> acc, std::span<const std::uint32_t> sent);

  // Replaces the values by as many others, and returns the former ones.
  std::unique_ptr<float[]> replace_by(std::unique_ptr<float[]> values) {
    return std::exchange(values_, std::move(values));
  }

  std::span<float> values() { return {values_.get(), elements_}; }
  std::span<const float> values() const { return {values_.get(), elements_}; }
  std::vector<StateView> state();

 private:
  std::unique_ptr<float[]> values_;
  std::size_t elements_;
};

// Tells whether no value is NaN or infinite.
bool all_finite(std::span<const float> values);

}  // namespace paceline::compress
