#include "paceline/core/server/vectors/vector_packet.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {
namespace {

using transport::WireReader;

bool has_elements(VectorKind kind) {
  return kind == VectorKind::store || kind == VectorKind::gradient || kind == VectorKind::values;
}

Failure malformed(const machine::Message& message, std::string_view why) {
  return {Fault::io,
          fmt::format("a message of kind {} about vectors on servers {}: a bug, please report it",
                      message.kind, why),
          {}};
}

bool read_commands(WireReader& reader, std::size_t vectors, std::vector<VectorCommand>& commands) {
  const std::size_t count = reader.rest().size() / kVectorCommandBytes;
  if (count > kMostCommands) return false;
  for (std::size_t i = 0; i < count; ++i) {
    VectorCommand command{.op = reader.integer<VectorOp>()};
    command.target = reader.integer<std::uint8_t>();
    command.source = reader.integer<std::uint8_t>();
    const auto zero = reader.integer<std::uint8_t>();
    command.factor = reader.real();
    if (command.op < VectorOp::copy || command.op > VectorOp::greatest || zero != 0 ||
        command.target >= vectors || command.source >= vectors)
      return false;
    commands.push_back(command);
  }
  return true;
}

bool read_values(WireReader& reader, std::vector<double>& values) {
  const std::size_t count = reader.rest().size() / sizeof(double);
  if (count > kMostCommands) return false;
  for (std::size_t i = 0; i < count; ++i) values.push_back(reader.real());
  return true;
}

// A shard, or nothing where there may be nothing.
bool read_elements(WireReader& reader, std::size_t shard_bytes, VectorPacket& packet) {
  const std::size_t bytes = reader.rest().size();
  if (bytes != shard_bytes && !(packet.kind == VectorKind::values && bytes == 0)) return false;
  packet.elements = reader.raw(bytes);
  return true;
}

}  // namespace

machine::Message encode(const VectorPacket& packet) {
  transport::WireWriter writer;
  writer.reserve(kVectorHeader + kVectorCommandBytes * packet.commands.size() +
                 sizeof(double) * (1 + packet.values.size()) + packet.elements.size() +
                 packet.text.size());
  writer.integer(packet.number).integer(packet.evaluation);
  for (const VectorCommand& command : packet.commands)
    writer.integer(command.op)
        .integer(command.target)
        .integer(command.source)
        .integer(std::uint8_t{0})
        .real(command.factor);
  for (const double value : packet.values) writer.real(value);
  writer.raw(packet.elements);
  if (packet.kind == VectorKind::done || packet.kind == VectorKind::over) writer.real(packet.loss);
  if (packet.kind == VectorKind::over)
    writer.text(std::string_view(packet.text).substr(0, kLongestVectorText));
  return {.kind = static_cast<std::uint32_t>(packet.kind), .payload = std::move(writer).take()};
}

Result<VectorPacket> parse_vector_packet(const machine::Message& message,
                                         const VectorLimits& limits) {
  WireReader reader(message.payload);
  VectorPacket packet{.kind = static_cast<VectorKind>(message.kind)};
  packet.number = reader.integer<std::uint64_t>();
  packet.evaluation = reader.integer<std::uint64_t>();
  if (packet.kind < VectorKind::carry_out || packet.kind > VectorKind::taken)
    return malformed(message, "has no known kind");
  if (packet.kind == VectorKind::carry_out &&
      !read_commands(reader, limits.vectors, packet.commands))
    return malformed(message, "has a command that makes no sense, or too many");
  if (packet.kind == VectorKind::carried_out && !read_values(reader, packet.values))
    return malformed(message, "has too many values");
  if (has_elements(packet.kind) && !read_elements(reader, limits.shard_bytes, packet))
    return malformed(message, "has not the elements of a shard");
  if (packet.kind == VectorKind::done || packet.kind == VectorKind::over)
    packet.loss = reader.real();
  if (packet.kind == VectorKind::over) packet.text = reader.text(kLongestVectorText);
  if (!reader.ok_and_empty()) return malformed(message, "has not the length of its kind");
  return packet;
}

}  // namespace paceline::server
