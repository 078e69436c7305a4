#include "paceline/core/compress/codec.h"

#include <fmt/format.h>

#include "paceline/core/base/check.h"

namespace paceline::compress {

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
