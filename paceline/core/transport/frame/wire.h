// One encoder and one decoder for every integer on the wire: fixed width, little-endian, never past
// the end.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/bytes.h"

namespace paceline::transport {

class WireWriter {
 public:
  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T> WireWriter& integer(T value) {
    static_assert(std::endian::native == std::endian::little,
                  "the wire is little-endian; add a byte swap here");
    return raw(bytes_of(value));
  }
  WireWriter& real(double value) { return integer(std::bit_cast<std::uint64_t>(value)); }
  WireWriter& raw(Bytes bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  WireWriter& text(std::string_view text) {  // u32 length, then the characters
    integer(static_cast<std::uint32_t>(text.size()));
    return raw(std::as_bytes(std::span(text)));
  }
  const std::vector<std::byte>& bytes() const& { return bytes_; }
  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads never fail loudly: past the end they give zeros, and ok() is false from then on. Check it
// once, at the end.
class WireReader {
 public:
  explicit WireReader(Bytes bytes) : rest_(bytes) {}

  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T> T integer() {
    T value{};
    if (rest_.size() < sizeof value) {
      fail();
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  double real() { return std::bit_cast<double>(integer<std::uint64_t>()); }
  Bytes raw(std::size_t count) {
    if (rest_.size() < count) {
      fail();
      return {};
    }
    const Bytes bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  std::string text(std::size_t longest) {  // refuses a length above `longest`
    const auto length = integer<std::uint32_t>();
    if (length > longest) {
      fail();
      return {};
    }
    const Bytes bytes = raw(length);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  Bytes rest() const { return rest_; }
  bool ok() const { return ok_; }
  bool ok_and_empty() const { return ok_ && rest_.empty(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  Bytes rest_;
  bool ok_ = true;
};

}  // namespace paceline::transport
