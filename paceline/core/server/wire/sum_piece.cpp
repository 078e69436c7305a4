#include "paceline/core/server/wire/sum_piece.h"

#include <fmt/format.h>

#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {
namespace {

constexpr std::size_t kLentPartBytes = 6 * sizeof(std::uint64_t);

Failure malformed() {
  return {Fault::io, "a malformed part of a push_pull: a bug, please report it", {}};
}

bool has_length_of(SumKind kind, const SumPiece& piece, std::size_t rest) {
  switch (kind) {
    case SumKind::push:
    case SumKind::sum:
      return rest / size_of(piece.dtype) == piece.count && rest % size_of(piece.dtype) == 0;
    case SumKind::shared: return rest == kLentPartBytes;
    case SumKind::stored: return rest / size_of(piece.dtype) <= piece.count;
    case SumKind::refused:
    case SumKind::ask:
    case SumKind::missing: break;
  }
  return false;
}

}  // namespace

machine::Message encode(SumKind kind, const SumPiece& piece, Bytes rest) {
  transport::WireWriter writer;
  writer.reserve(kPieceHeader + rest.size());
  writer.integer(piece.dtype).integer(piece.op).integer(std::uint16_t{0});
  writer.integer(static_cast<std::uint32_t>(piece.count));
  writer.integer(piece.call).integer(piece.begin).integer(piece.all);
  return {.kind = static_cast<std::uint32_t>(kind),
          .index = piece.channel,
          .payload = std::move(writer.raw(rest)).take()};
}

machine::Message encode(const SumPiece& piece, const SharedPart& lent) {
  transport::WireWriter writer;
  writer.integer(lent.input.segment).integer(lent.input.offset);
  writer.integer(lent.output.segment).integer(lent.output.offset);
  writer.integer(lent.stored.begin).integer(lent.stored.end);
  return encode(SumKind::shared, piece, writer.bytes());
}

Result<ReadPiece> parse_sum_piece(const machine::Message& message) {
  transport::WireReader reader(message.payload);
  SumPiece piece{.channel = message.index};
  piece.dtype = reader.integer<Dtype>();
  piece.op = reader.integer<ReduceOp>();
  const auto zeros = reader.integer<std::uint16_t>();
  piece.count = reader.integer<std::uint32_t>();
  piece.call = reader.integer<std::uint64_t>();
  piece.begin = reader.integer<std::uint64_t>();
  piece.all = reader.integer<std::uint64_t>();
  if (!reader.ok() || zeros != 0 || !is_known(piece.op) || !is_known(piece.dtype) ||
      !can_reduce(piece.op, piece.dtype))
    return malformed();
  const Bytes rest = reader.rest();
  const bool fits =
      piece.count > 0 && has_length_of(static_cast<SumKind>(message.kind), piece, rest.size());
  if (!fits || piece.begin > piece.all || piece.count > piece.all - piece.begin) return malformed();
  return ReadPiece{piece, rest};
}

Result<SharedPart> parse_shared_part(const ReadPiece& read) {
  transport::WireReader reader(read.rest);
  SharedPart lent;
  lent.input.segment = reader.integer<std::uint64_t>();
  lent.input.offset = reader.integer<std::uint64_t>();
  lent.output.segment = reader.integer<std::uint64_t>();
  lent.output.offset = reader.integer<std::uint64_t>();
  lent.stored.begin = reader.integer<std::uint64_t>();
  lent.stored.end = reader.integer<std::uint64_t>();
  if (!reader.ok_and_empty() || lent.stored.begin > lent.stored.end ||
      lent.stored.end > read.piece.bytes())
    return malformed();
  return lent;
}

machine::Message encode(SumKind kind, const MissingParts& missing) {
  transport::WireWriter writer;
  writer.integer(missing.call);
  for (const std::int32_t worker : missing.workers) writer.integer(worker);
  return {.kind = static_cast<std::uint32_t>(kind),
          .index = missing.channel,
          .payload = std::move(writer).take()};
}

std::optional<MissingParts> parse_missing_parts(const machine::Message& message) {
  transport::WireReader reader(message.payload);
  MissingParts missing{.channel = message.index, .call = reader.integer<std::uint64_t>()};
  const std::size_t workers = reader.rest().size() / sizeof(std::int32_t);
  for (std::size_t i = 0; i < workers; ++i)
    missing.workers.push_back(reader.integer<std::int32_t>());
  if (!reader.ok_and_empty()) return std::nullopt;
  return missing;
}

std::string describe(const SumPiece& piece) {
  return fmt::format("{} {} for {}", piece.all, name_of(piece.dtype), name_of(piece.op));
}

}  // namespace paceline::server
