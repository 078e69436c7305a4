#include "paceline/core/compress/payload/codec.h"

#include <fmt/format.h>

#include "paceline/core/base/check.h"
#include "paceline/core/base/reduce.h"

namespace paceline::compress {

std::optional<std::size_t> Codec::encode_sum(std::span<const float> values,
                                             std::span<const float> more,
                                             const EncodeContext& occasion, std::span<float> sum,
                                             MutableBytes payload) const {
  reduce(ReduceOp::sum, Dtype::f32, std::as_bytes(values), std::as_bytes(more),
         std::as_writable_bytes(sum));
  return encode(sum, occasion, payload);
}

Failure malformed_payload(std::string what) {
  return {Fault::io, "a payload of compressed gradients is malformed: " + std::move(what), {}};
}

Result<> expect_bytes(Bytes payload, std::size_t bytes, std::size_t elements) {
  if (payload.size() == bytes) return Done{};
  return malformed_payload(
      fmt::format("it has {} bytes, and {} elements have {}", payload.size(), elements, bytes));
}

void require_room(MutableBytes payload, std::size_t bytes) {
  PACELINE_CHECK(payload.size() >= bytes, "a payload of up to {} bytes is encoded into {}", bytes,
                 payload.size());
}

}  // namespace paceline::compress
