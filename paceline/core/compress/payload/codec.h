// A codec turns the floats of one tensor into a payload of bytes and back.
// docs/compression/formats.md gives the layout of each payload.
//
// Codecs have no state: an encoding depends only on the values and its EncodeContext, so every
// rank, and a restarted run, can draw the same random numbers. Error feedback and momenta live in
// the averagings above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::compress {

// The layout of a payload: MessageHeader::codec. Codecs that differ only in settings share one.
enum class PayloadFormat : std::uint8_t {
  fp16 = 1,
  bf16,
  levels,        // qsgd, int8, terngrad: norms of buckets, then integers of some bits
  signs,         // ef_sign: a scale, then a bit for each element
  column_signs,  // one_bit: two means for each column, then a bit for each element
  sparse,        // top_k and others: ascending indices, then their values
};

// Identifies an encoding: its tensor, step and rank, and the run's seed.
struct EncodeContext {
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

  // An upper bound of the bytes that `encode` writes for `elements` values.
  virtual std::size_t longest_payload(std::size_t elements) const = 0;

  // Returns the number of bytes written at the beginning of `payload`. Returns nothing on overflow:
  // a value is NaN or infinite, or would not come back finite. `payload` is then unspecified, and
  // all ranks must skip the step. REQUIRES: payload.size() >= longest_payload(values.size()); no
  // overlap.
  virtual std::optional<std::size_t> encode(std::span<const float> values,
                                            const EncodeContext& occasion,
                                            MutableBytes payload) const = 0;

  // Encodes values + more, and writes that sum into `sum`: `values` itself, or other memory, in
  // which case a codec may do it in one pass. REQUIRES: equal lengths.
  virtual std::optional<std::size_t> encode_sum(std::span<const float> values,
                                                std::span<const float> more,
                                                const EncodeContext& occasion, std::span<float> sum,
                                                MutableBytes payload) const;

  // Overwrites all values with finite ones. The payload comes from outside: a failure says what is
  // wrong with it, and leaves the values unspecified.
  virtual Result<> decode(Bytes payload, std::span<float> values) const = 0;
};

// The failure that a codec's decode returns.
Failure malformed_payload(std::string what);
// Fails unless the payload has exactly `bytes` bytes.
Result<> expect_bytes(Bytes payload, std::size_t bytes, std::size_t elements);
// Throws misuse unless a codec's caller gave at least `bytes` bytes of room.
void require_room(MutableBytes payload, std::size_t bytes);

}  // namespace paceline::compress
