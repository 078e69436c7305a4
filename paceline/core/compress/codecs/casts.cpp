#include "paceline/core/compress/codecs/casts.h"

#include <algorithm>
#include <array>

#include "paceline/core/base/check.h"
#include "paceline/core/base/half.h"
#include "paceline/core/compress/kernels/long_output.h"

namespace paceline::compress {
namespace {

constexpr std::size_t kCastBlock = 4096;  // elements; checked while they are in the nearest cache
constexpr std::size_t kLong = 1 << 22;    // bytes; more than the near caches hold

class Cast final : public Codec {
 public:
  explicit Cast(Dtype dtype) : dtype_(dtype) {}

  PayloadFormat format() const override {
    return dtype_ == Dtype::f16 ? PayloadFormat::fp16 : PayloadFormat::bf16;
  }

  std::size_t longest_payload(std::size_t elements) const override { return 2 * elements; }

  std::optional<std::size_t> encode(std::span<const float> values, const EncodeContext&,
                                    MutableBytes payload) const override {
    const std::size_t bytes = longest_payload(values.size());
    require_room(payload, bytes);
    std::array<std::byte, 2 * kCastBlock> halves;
    const bool is_long = bytes >= kLong;
    for (std::size_t at = 0; at < values.size(); at += kCastBlock) {
      const std::size_t count = std::min(kCastBlock, values.size() - at);
      const MutableBytes target = payload.subspan(2 * at, 2 * count);
      const MutableBytes block = is_long ? MutableBytes(halves).first(2 * count) : target;
      narrow(dtype_, values.subspan(at, count), block);
      if (!all_finite(dtype_, block)) return std::nullopt;
      if (is_long) copy_past_caches(block, target);
    }
    if (is_long) finish_copies();
    return bytes;
  }

  Result<> decode(Bytes payload, std::span<float> values) const override {
    if (auto length = expect_bytes(payload, longest_payload(values.size()), values.size()); !length)
      return length;
    const bool done = decode_in_blocks(values, [&](std::size_t at, std::span<float> block) {
      const Bytes halves = payload.subspan(2 * at, 2 * block.size());
      if (!all_finite(dtype_, halves)) return false;
      widen(dtype_, halves, block);
      return true;
    });
    if (!done) return malformed_payload("it holds a value that is not finite");
    return Done{};
  }

 private:
  Dtype dtype_;
};

}  // namespace

std::unique_ptr<Codec> cast_codec(Dtype dtype) {
  PACELINE_CHECK(is_half(dtype), "there is no cast to {}: f16 and bf16 are", name_of(dtype));
  return std::make_unique<Cast>(dtype);
}

}  // namespace paceline::compress
