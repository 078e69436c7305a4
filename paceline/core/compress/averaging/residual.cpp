#include "paceline/core/compress/averaging/residual.h"

#include <algorithm>
#include <bit>

namespace paceline::compress {

Residual::Residual(bool feedback, std::size_t elements, SpareMemory& spares)
    : values_(feedback ? spares.take(elements) : nullptr), elements_(feedback ? elements : 0) {
  std::ranges::fill(values(), 0.0F);
}

void Residual::add_to(std::span<float> gradient) const {
  if (!kept()) return;
  reduce(ReduceOp::sum, Dtype::f32, std::as_bytes(gradient), std::as_bytes(values()),
         std::as_writable_bytes(gradient));
}

void Residual::keep_rest_of(std::span<const float> acc) {
  for (std::size_t i = 0; i < elements_; ++i) values_[i] = acc[i] - values_[i];
}

void Residual::keep_all_but(std::span<const float> acc, std::span<const std::uint32_t> sent) {
  if (!kept()) return;
  std::copy(acc.begin(), acc.end(), values_.get());
  for (const std::uint32_t i : sent) values_[i] = 0;
}

std::vector<StateView> Residual::state() {
  if (!kept()) return {};
  return {{StateView::Sharing::own, "residual", values()}};
}

bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t bad = 0;
  for (const float value : values)
    bad |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
  return bad == 0;
}

}  // namespace paceline::compress
