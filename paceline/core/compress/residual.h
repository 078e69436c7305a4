// Error feedback: what compression lost of a gradient is added to the next one.
//
// With acc = gradient + residual and D the decoding of what was sent, the next residual is
// acc - D(sent), computed from the bytes that travelled. So nothing is lost: over any steps the sum
// of the means, and the mean of the last residuals, is the sum of the mean gradients.
#pragma once

#include <vector>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

// The residual of one tensor on one rank; without feedback it is empty, and nothing happens.
class Residual {
 public:
  Residual(bool feedback, std::size_t elements) : values_(feedback ? elements : 0) {}

  bool kept() const { return !values_.empty(); }
  // acc: gradient += residual.
  void add_to(std::span<float> gradient) const;
  // residual = acc - residual: what was sent has been decoded into values(), which needs no other
  // place, as acc has the former residual in it.
  void keep_rest_of(std::span<const float> acc);
  // residual = acc but for these elements, which were sent as they were.
  void keep_all_but(std::span<const float> acc, std::span<const std::uint32_t> sent);

  std::span<float> values() { return values_; }
  std::vector<StateView> state();

 private:
  std::vector<float> values_;
};

// Whether no value is NaN or infinite.
bool all_finite(std::span<const float> values);

}  // namespace paceline::compress
