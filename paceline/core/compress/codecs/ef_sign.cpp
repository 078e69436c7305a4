#include "paceline/core/compress/codecs/ef_sign.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "paceline/core/compress/kernels/long_output.h"
#include "paceline/core/compress/kernels/sign_bits.h"

namespace paceline::compress {
namespace {

constexpr std::size_t kScaleBytes = sizeof(float);

class EfSign final : public Codec {
 public:
  PayloadFormat format() const override { return PayloadFormat::signs; }

  std::size_t longest_payload(std::size_t elements) const override {
    return kScaleBytes + sign_bytes(elements);
  }

  std::optional<std::size_t> encode(std::span<const float> values, const EncodeContext&,
                                    MutableBytes payload) const override {
    const std::size_t bytes = longest_payload(values.size());
    require_room(payload, bytes);
    const double sum = pack_signs(values, payload.first(bytes).subspan(kScaleBytes));
    if (!std::isfinite(sum)) return std::nullopt;
    const auto scale =
        values.empty() ? 0.0f : static_cast<float>(sum / static_cast<double>(values.size()));
    std::memcpy(payload.data(), &scale, sizeof scale);
    return bytes;
  }

  Result<> decode(Bytes payload, std::span<float> values) const override {
    if (auto length = expect_bytes(payload, longest_payload(values.size()), values.size()); !length)
      return length;
    float scale;
    std::memcpy(&scale, payload.data(), sizeof scale);
    if (!std::isfinite(scale) || std::signbit(scale))
      return malformed_payload(fmt::format("its scale is {}", scale));
    const Bytes bits = payload.subspan(kScaleBytes);
    if (!are_signs(bits, values.size())) return malformed_payload("bits follow the last sign");
    decode_in_blocks(values, [&](std::size_t at, std::span<float> block) {
      unpack_signs(bits.subspan(at / 8, sign_bytes(block.size())), scale, block);
      return true;
    });
    return Done{};
  }
};

}  // namespace

std::unique_ptr<Codec> ef_sign_codec() {
  return std::make_unique<EfSign>();
}

}  // namespace paceline::compress
