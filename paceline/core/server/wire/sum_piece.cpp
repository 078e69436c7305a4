#include "paceline/core/server/wire/sum_piece.h"

#include <fmt/format.h>

#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {
namespace {

Failure malformed() {
  return {Fault::io, "a malformed part of a push_pull: a bug, please report it", {}};
}

}  // namespace

machine::Message encode(SumKind kind, const SumPiece& piece, Bytes elements) {
  transport::WireWriter writer;
  writer.integer(piece.channel).integer(piece.dtype).integer(piece.op).integer(std::uint16_t{0});
  writer.integer(piece.call).integer(piece.begin).integer(piece.count).integer(piece.all);
  return {.kind = static_cast<std::uint32_t>(kind),
          .payload = std::move(writer.raw(elements)).take()};
}

Result<ReadPiece> parse_sum_piece(const machine::Message& message) {
  transport::WireReader reader(message.payload);
  SumPiece piece;
  piece.channel = reader.integer<std::uint32_t>();
  piece.dtype = reader.integer<Dtype>();
  piece.op = reader.integer<ReduceOp>();
  const auto zeros = reader.integer<std::uint16_t>();
  piece.call = reader.integer<std::uint64_t>();
  piece.begin = reader.integer<std::uint64_t>();
  piece.count = reader.integer<std::uint64_t>();
  piece.all = reader.integer<std::uint64_t>();
  if (!reader.ok() || zeros != 0 || !is_known(piece.op) || !is_known(piece.dtype) ||
      !can_sum(piece.op, piece.dtype))
    return malformed();
  const Bytes elements = reader.rest();
  const bool fits = piece.count > 0 && elements.size() / size_of(piece.dtype) == piece.count &&
                    elements.size() % size_of(piece.dtype) == 0;
  if (!fits || piece.begin > piece.all || piece.count > piece.all - piece.begin) return malformed();
  return ReadPiece{piece, elements};
}

bool can_sum(ReduceOp op, Dtype dtype) {
  return dtype != Dtype::f16 && dtype != Dtype::bf16 && can_reduce(op, dtype);
}

std::string describe(const SumPiece& piece) {
  return fmt::format("{} {} for {}", piece.all, name_of(piece.dtype), name_of(piece.op));
}

}  // namespace paceline::server
