// Writes messages in protobuf's wire format (https://protobuf.dev/programming-guides/encoding), as
// far as the two foreign formats that observe writes need it. Both are small and frozen, so a
// generator and its runtime library would cost more than this.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::observe {

class ProtobufMessage {
 public:
  // An integer, an enum or a bool; negative ones are in two's complement.
  ProtobufMessage& integer(int field, std::uint64_t value);
  ProtobufMessage& real(int field, double value);
  ProtobufMessage& real(int field, float value);
  ProtobufMessage& text(int field, std::string_view value);
  ProtobufMessage& message(int field, const ProtobufMessage& value) {
    return text(field, value.bytes_);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };
  void varint(std::uint64_t value);
  void key(int field, Wire wire) {
    varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
  }

  std::string bytes_;
};

}  // namespace paceline::observe
