// A codec turns the floats of one tensor into a payload of bytes and back. Its payload's layout
// stands in docs/compression/formats.md.
//
// Codecs have no state: what an encoding needs besides the values is its occasion, so that every
// rank, and a restarted run, can draw the same random numbers. Error feedback and momenta are kept
// by what stands above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::compress {

// How a payload is laid out: MessageHeader::codec. Codecs that differ in settings alone share one.
enum class PayloadFormat : std::uint8_t {
  fp16 = 1,
  bf16,
  levels,        // qsgd, int8, terngrad: norms of buckets, then integers of some bits
  signs,         // ef_sign: a scale, then a bit for each element
  column_signs,  // one_bit: two means for each column, then a bit for each element
  sparse,        // top_k and others: ascending indices, then their values
};

// Of which tensor, in which step and on which rank something is encoded, and the run's seed.
struct Occasion {
  std::uint64_t seed = 0;
  std::uint32_t tensor = 0;
  std::uint32_t step = 0;
  std::uint32_t rank = 0;
};

// THREAD: any; a codec is never changed.
class Codec {
 public:
  virtual ~Codec() = default;

  virtual PayloadFormat format() const = 0;

  // What `encode` writes at most for so many elements.
  virtual std::size_t longest_payload(std::size_t elements) const = 0;

  // The bytes written at the beginning of `payload`. Nothing: a value is NaN or infinite, or would
  // not come back finite (overflow); `payload` then holds nothing of use, and the step is to be
  // skipped on all ranks. REQUIRES: payload.size() >= longest_payload(values.size()); no overlap.
  virtual std::optional<std::size_t> encode(std::span<const float> values, const Occasion& occasion,
                                            MutableBytes payload) const = 0;

  // The same of values + more, which it writes into `sum`: `values` itself, or other memory. Where
  // that is other memory a codec may do it in one pass. REQUIRES: equal lengths.
  virtual std::optional<std::size_t> encode_sum(std::span<const float> values,
                                                std::span<const float> more,
                                                const Occasion& occasion, std::span<float> sum,
                                                MutableBytes payload) const;

  // Overwrites all values, with finite ones. The payload comes from outside: a failure says what is
  // wrong with it, and leaves the values unspecified.
  virtual Result<> decode(Bytes payload, std::span<float> values) const = 0;
};

// For codecs: the failure of a decode.
Failure malformed_payload(std::string what);
// Fails unless a payload has so many bytes.
Result<> expect_bytes(Bytes payload, std::size_t bytes, std::size_t elements);
// For codecs: throws misuse unless the payload's place is long enough.
void require_room(MutableBytes payload, std::size_t bytes);

}  // namespace paceline::compress
