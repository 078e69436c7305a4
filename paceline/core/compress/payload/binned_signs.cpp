#include "paceline/core/compress/payload/binned_signs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {
namespace {

std::size_t bin_width(std::size_t bin) {
  return bin <= 127 ? 1 : 2;
}
std::size_t bins_of(std::size_t elements, std::size_t bin) {
  return (elements + bin - 1) / bin;
}

// Writes or reads numbers one after the other in a payload.
template <typename Number>
class MixedPrecision {
 public:
  explicit MixedPrecision(std::size_t at) : at_(at) {}

  void write(MutableBytes payload, std::size_t value) {
    const auto number = static_cast<Number>(value);
    std::memcpy(payload.data() + at_, &number, sizeof number);
    at_ += sizeof number;
  }
  std::size_t read(Bytes payload) {
    Number number;
    std::memcpy(&number, payload.data() + at_, sizeof number);
    at_ += sizeof number;
    return number;
  }

 private:
  std::size_t at_;
};

Result<> check_scale(float scale) {
  if (std::isfinite(scale) && !std::signbit(scale)) return Done();
  return malformed_payload(fmt::format("its scale is {}", scale));
}

// Reads the bin that begins at element `begin` and sends `sent` elements.
template <typename Number>
Result<> read_bin(Bytes payload, MixedPrecision<Number>& entries, std::size_t sent,
                  std::size_t begin, std::size_t length, std::vector<SignedElement>& into) {
  std::size_t next = 0;  // the least place that may follow
  for (std::size_t i = 0; i < sent; ++i) {
    const std::size_t entry = entries.read(payload), place = entry / 2;
    if (place < next || place >= length) {
      return malformed_payload(
          fmt::format("place {} of the bin at element {} must be at least {} and below {}", place,
                      begin, next, length));
    }
    into.push_back({static_cast<std::uint32_t>(begin + place), entry % 2 != 0});
    next = place + 1;
  }
  return Done();
}

template <typename Number>
void write_bins(const BinnedSigns& signs, std::size_t elements, std::size_t bin,
                MutableBytes payload) {
  MixedPrecision<Number> counts(sizeof signs.scale), entries(binned_bytes(elements, bin, 0));
  auto next = signs.elements.begin();
  for (std::size_t begin = 0; begin < elements; begin += bin) {
    std::size_t sent = 0;
    for (; next != signs.elements.end() && next->index < begin + bin; ++next, ++sent)
      entries.write(payload, (next->index - begin) * 2 + (next->negative ? 1 : 0));
    counts.write(payload, sent);
  }
}

template <typename Number>
Result<> read_bins(Bytes payload, std::size_t elements, std::size_t bin, BinnedSigns& signs) {
  const std::size_t least = binned_bytes(elements, bin, 0);
  if (payload.size() < least || (payload.size() - least) % sizeof(Number) != 0) {
    return malformed_payload(fmt::format("its {} bytes are not {} and {} for each element sent",
                                         payload.size(), least, sizeof(Number)));
  }
  MixedPrecision<Number> counts(sizeof signs.scale), entries(least);
  std::size_t left = (payload.size() - least) / sizeof(Number);
  signs.elements.reserve(left);
  for (std::size_t begin = 0; begin < elements; begin += bin) {
    const std::size_t sent = counts.read(payload);
    if (sent > left) return malformed_payload("its bins send more than it has");
    left -= sent;
    const auto read =
        read_bin(payload, entries, sent, begin, std::min(bin, elements - begin), signs.elements);
    if (!read) return read;
  }
  if (left > 0) return malformed_payload("its bins send less than it has");
  return Done();
}

}  // namespace

std::size_t binned_bytes(std::size_t elements, std::size_t bin, std::size_t sent) {
  return sizeof(float) + bin_width(bin) * (bins_of(elements, bin) + sent);
}

void write_binned(const BinnedSigns& signs, std::size_t elements, std::size_t bin,
                  MutableBytes payload) {
  PACELINE_CHECK(payload.size() == binned_bytes(elements, bin, signs.elements.size()),
                 "{} elements in {} bytes", signs.elements.size(), payload.size());
  std::memcpy(payload.data(), &signs.scale, sizeof signs.scale);
  const auto write = bin_width(bin) == 1 ? write_bins<std::uint8_t> : write_bins<std::uint16_t>;
  write(signs, elements, bin, payload);
}

Result<BinnedSigns> read_binned(Bytes payload, std::size_t elements, std::size_t bin) {
  BinnedSigns signs;
  const auto read = bin_width(bin) == 1 ? read_bins<std::uint8_t> : read_bins<std::uint16_t>;
  if (const auto done = read(payload, elements, bin, signs); !done) return done.error();
  std::memcpy(&signs.scale, payload.data(), sizeof signs.scale);
  if (const auto right = check_scale(signs.scale); !right) return right.error();
  return signs;
}

void add_to(const BinnedSigns& signs, std::span<float> values) {
  const std::array<float, 2> signed_scale = {signs.scale, -signs.scale};
  for (const SignedElement& element : signs.elements)
    values[element.index] += signed_scale[element.negative ? 1 : 0];
}

}  // namespace paceline::compress
