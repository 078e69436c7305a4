#include "paceline/core/server/sparse/sparse_packet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {
namespace {

constexpr std::size_t kLongestFailure = 4096;

bool has_list(SparseKind kind) {
  return kind == SparseKind::push || kind == SparseKind::pull;
}

bool has_rows(SparseKind kind) {
  return kind == SparseKind::push || kind == SparseKind::rows;
}

// Rows with their ids and the rule's state.
bool has_whole_rows(SparseKind kind) {
  return kind == SparseKind::fetched || kind == SparseKind::store;
}

Failure malformed(const SparsePacket& packet, std::string_view why) {
  return {Fault::io,
          fmt::format("a packet of kind {} for share {} of a sparse table {}: a bug, please "
                      "report it",
                      static_cast<std::uint32_t>(packet.kind), packet.share, why),
          {}};
}

// Returns what is wrong with the ids.
std::string_view read_ids(transport::WireReader& reader, SparsePacket& packet,
                          const SparseShape& shape) {
  packet.list = reader.integer<std::uint64_t>();
  if ((packet.flags & SparsePacket::kHasIds) == 0) return "";
  if (reader.rest().size() / sizeof(std::uint64_t) < packet.count)
    return "has not the ids that it says";
  IdList ids(packet.count);
  const Bytes bytes = reader.raw(packet.count * sizeof(std::uint64_t));
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), bytes.size());
  if (!ascend(ids)) return "has ids that do not ascend";
  if (!ids.empty() && ids.back() >= kIdBound) return "has an id of more than 48 bits";
  for (const std::uint64_t id : ids)
    if (shape.share_of(hash_of_id(id)) != packet.share) return "has ids of another share";
  if (key_of(ids) != packet.key()) return "has other ids than their hash says";
  packet.ids = std::make_shared<const IdList>(std::move(ids));
  return "";
}

// Returns what is wrong with ids and rows.
std::string_view read_whole_rows(transport::WireReader& reader, SparsePacket& packet,
                                 const SparseShape& shape) {
  const std::size_t each = sizeof(std::uint64_t) + shape.value_bytes() + shape.state_bytes();
  if (packet.count != reader.rest().size() / each || reader.rest().size() % each != 0)
    return "has not the rows that it says";
  IdList ids(packet.count);
  const Bytes bytes = reader.raw(packet.count * sizeof(std::uint64_t));
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), bytes.size());
  for (const std::uint64_t id : ids)
    if (id >= kIdBound || shape.share_of(hash_of_id(id)) != packet.share)
      return "has ids of another share";
  packet.ids = std::make_shared<const IdList>(std::move(ids));
  packet.rows = reader.raw(reader.rest().size());
  return "";
}

bool are_good(const SparsePacket& packet) {
  return std::isfinite(packet.weight) && packet.weight >= 0 && std::isfinite(packet.rate) &&
         packet.rate >= 0;
}

// Returns what is wrong with what follows the header.
std::string_view read_body(transport::WireReader& reader, SparsePacket& packet,
                           const SparseShape& shape) {
  if (packet.kind == SparseKind::push) {
    packet.weight = reader.real();
    packet.rate = reader.real();
    if (!are_good(packet)) return "has a weight or rate that is no number of at least 0";
  }
  if (has_list(packet.kind))
    if (const auto why = read_ids(reader, packet, shape); !why.empty()) return why;
  if (has_rows(packet.kind)) {
    packet.rows = reader.rest();
    if (packet.count != packet.rows.size() / shape.value_bytes() ||
        packet.rows.size() % shape.value_bytes() != 0)
      return "has not the rows that it says";
    reader.raw(packet.rows.size());
  }
  if (has_whole_rows(packet.kind))
    if (const auto why = read_whole_rows(reader, packet, shape); !why.empty()) return why;
  if (packet.kind == SparseKind::missing) {
    if (reader.rest().size() / sizeof(std::int32_t) != packet.count)
      return "has not the members that it says";
    for (std::uint64_t i = 0; i < packet.count; ++i)
      packet.members.push_back(reader.integer<std::int32_t>());
  }
  if (packet.kind == SparseKind::rested) {
    packet.counted = reader.integer<std::uint64_t>();
    packet.evicted = reader.integer<std::uint64_t>();
  }
  if (packet.kind == SparseKind::failed) packet.text = reader.text(kLongestFailure);
  return reader.ok_and_empty() ? "" : "has not the length of its kind";
}

}  // namespace

machine::Message encode_without_rows(const SparsePacket& packet, std::size_t row_bytes) {
  const bool names_ids = has_list(packet.kind) && packet.ids;
  const bool has_ids = names_ids || (has_whole_rows(packet.kind) && packet.ids);
  const std::size_t id_bytes = has_ids ? packet.ids->size() * sizeof(std::uint64_t) : 0;
  constexpr std::size_t kNumbers = 3 * sizeof(std::uint64_t);
  transport::WireWriter writer;
  writer.reserve(kSparseHeader + kNumbers + id_bytes + row_bytes);
  writer.integer(packet.share)
      .integer(packet.flags | (names_ids ? SparsePacket::kHasIds : 0))
      .integer(packet.number)
      .integer(packet.sequence)
      .integer(packet.clock)
      .integer(packet.count);
  if (packet.kind == SparseKind::push) writer.real(packet.weight).real(packet.rate);
  if (has_list(packet.kind)) writer.integer(packet.list);
  if (has_ids) writer.raw(std::as_bytes(std::span(*packet.ids)));
  if (packet.kind == SparseKind::rested) writer.integer(packet.counted).integer(packet.evicted);
  for (const std::int32_t member : packet.members) writer.integer(member);
  if (packet.kind == SparseKind::failed)
    writer.text(std::string_view(packet.text).substr(0, kLongestFailure));
  std::vector<std::byte> payload = std::move(writer).take();
  payload.resize(payload.size() + row_bytes);
  return {.kind = static_cast<std::uint32_t>(packet.kind), .payload = std::move(payload)};
}

machine::Message encode(const SparsePacket& packet) {
  machine::Message message = encode_without_rows(packet, packet.rows.size());
  std::ranges::copy(packet.rows, message.payload.end() - std::ssize(packet.rows));
  return message;
}

Result<SparsePacket> parse_sparse_packet(const machine::Message& message,
                                         const SparseShape& shape) {
  transport::WireReader reader(message.payload);
  SparsePacket packet;
  packet.kind = static_cast<SparseKind>(message.kind);
  packet.share = reader.integer<std::uint32_t>();
  packet.flags = reader.integer<std::uint32_t>();
  packet.number = reader.integer<std::uint64_t>();
  packet.sequence = reader.integer<std::uint64_t>();
  packet.clock = reader.integer<std::int64_t>();
  packet.count = reader.integer<std::uint64_t>();
  if (packet.kind < SparseKind::begin || packet.kind > SparseKind::done)
    return malformed(packet, "has no known kind");
  if (packet.share >= shape.servers()) return malformed(packet, "names a share that is not there");
  if (const auto why = read_body(reader, packet, shape); !why.empty())
    return malformed(packet, why);
  return packet;
}

}  // namespace paceline::server
