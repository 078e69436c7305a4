// Error feedback: what compression lost of a gradient is added to the next one.
//
// With acc = gradient + residual and D the decoding of what was sent, the next residual is
// acc - D(sent), computed from the bytes that travelled. So nothing is lost: over any steps the sum
// of the means, and the mean of the last residuals, is the sum of the mean gradients.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

// The residual of one tensor on one rank; without feedback it is empty, and nothing happens.
class Residual {
 public:
  Residual(bool feedback, std::size_t elements)
      : values_(feedback ? std::make_unique<float[]>(elements) : nullptr),
        elements_(feedback ? elements : 0) {}

  // In memory that is given back when others replace them.
  Residual(bool feedback, std::size_t elements, SpareMemory& spares);

  bool kept() const { return elements_ > 0; }
  // acc: gradient += residual.
  void add_to(std::span<float> gradient) const;
  // residual = acc - residual: what was sent has been decoded into values(), which needs no other
  // place, as acc has the former residual in it.
  void keep_rest_of(std::span<const float> acc);
  // residual = acc but for these elements, which were sent as they were.
  void keep_all_but(std::span<const float> acc, std::span<const std::uint32_t> sent);

  // These instead, as many as there were, which are returned.
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

// Whether no value is NaN or infinite.
bool all_finite(std::span<const float> values);

}  // namespace paceline::compress
