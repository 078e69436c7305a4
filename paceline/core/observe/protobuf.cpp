#include "paceline/core/observe/protobuf.h"

#include <bit>

namespace paceline::observe {

static_assert(std::endian::native == std::endian::little);

void ProtobufMessage::varint(std::uint64_t value) {
  while (value >= 128) {
    bytes_ += static_cast<char>(value | 128);
    value >>= 7;
  }
  bytes_ += static_cast<char>(value);
}

ProtobufMessage& ProtobufMessage::integer(int field, std::uint64_t value) {
  key(field, Wire::varint);
  varint(value);
  return *this;
}

ProtobufMessage& ProtobufMessage::real(int field, double value) {
  key(field, Wire::fixed64);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::real(int field, float value) {
  key(field, Wire::fixed32);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::text(int field, std::string_view value) {
  key(field, Wire::length);
  varint(value.size());
  bytes_ += value;
  return *this;
}

}  // namespace paceline::observe
