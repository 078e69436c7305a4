#include "paceline/core/server/sparse/share_change.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace paceline::server {
namespace {

using transport::WireReader;
using transport::WireWriter;

bool is_measure(double one) {
  return std::isfinite(one) && one >= 0;
}

const SparsePush* push_of(const ShareChange& change) {
  return change.pushes.empty() ? nullptr : &change.pushes.front();
}

bool has_push(ShareChange::Kind kind) {
  return kind == ShareChange::Kind::step || kind == ShareChange::Kind::taken ||
         kind == ShareChange::Kind::store;
}

bool read_ids(WireReader& reader, std::uint64_t ids, SparseRows& rows) {
  if (reader.rest().size() / sizeof(std::uint64_t) < ids) return false;
  IdList list(static_cast<std::size_t>(ids));
  const Bytes raw = reader.raw(list.size() * sizeof(std::uint64_t));
  if (!list.empty()) std::memcpy(list.data(), raw.data(), raw.size());
  rows.ids = std::make_shared<const IdList>(std::move(list));
  return true;
}

bool read_rows(WireReader& reader, std::uint64_t bytes, SparseRows& rows) {
  if (reader.rest().size() < bytes) return false;
  const Bytes all = reader.raw(static_cast<std::size_t>(bytes));
  rows.rows.assign(all.begin(), all.end());
  return reader.ok();
}

bool read_counts(WireReader& reader, std::uint32_t count, SparsePush& push) {
  if (reader.rest().size() / sizeof(std::uint32_t) < count) return false;
  push.counts.resize(count);
  for (std::uint32_t& one : push.counts) one = reader.integer<std::uint32_t>();
  return true;
}

bool read_decided(WireReader& reader, std::uint32_t count, ShareChange& change) {
  if (reader.rest().size() / kDecidedBytes < count) return false;
  change.decided.resize(count);
  for (ShareChange::Decided& one : change.decided) {
    one.worker = reader.integer<std::int32_t>();
    reader.integer<std::uint32_t>();
    one.sequence = reader.integer<std::uint64_t>();
    one.stamp = reader.integer<std::int64_t>();
    if (one.worker < 0) return false;
  }
  return reader.ok();
}

}  // namespace

std::string_view name_of(ShareChange::Kind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"unknown", "step", "taken", "leave",
                                                      "rest",    "wake", "store"};
  const auto number = static_cast<std::size_t>(kind);
  return kNames[number < kNames.size() ? number : 0];
}

std::size_t bytes_of(const ShareChange& change) {
  const SparsePush* const push = push_of(change);
  return kShareChangeHeader + kDecidedBytes * change.decided.size() +
         (push == nullptr
              ? 0
              : sizeof(std::uint64_t) * push->rows.ids->size() +
                    sizeof(std::uint32_t) * push->counts.size() + push->rows.rows.size());
}

void write_entry(const ShareChange& change, WireWriter& writer) {
  static const SparsePush kNone;
  const SparsePush& push = change.pushes.empty() ? kNone : change.pushes.front();
  writer.integer(change.kind)
      .integer(static_cast<std::int32_t>(change.worker))
      .integer(change.number)
      .integer(change.rule_steps)
      .real(change.total)
      .real(push.weight)
      .real(push.rate)
      .integer(static_cast<std::uint32_t>(change.decided.size()))
      .integer(static_cast<std::uint32_t>(push.counts.size()))
      .integer(static_cast<std::uint64_t>(push.rows.ids->size()))
      .integer(static_cast<std::uint64_t>(push.rows.rows.size()));
  for (const ShareChange::Decided& one : change.decided)
    writer.integer(static_cast<std::int32_t>(one.worker))
        .integer(std::uint32_t{0})
        .integer(one.sequence)
        .integer(one.stamp);
  writer.raw(std::as_bytes(std::span(*push.rows.ids)));
  for (const std::uint32_t count : push.counts) writer.integer(count);
  writer.raw(push.rows.rows);
}

bool read_entry(WireReader& reader, ShareChange& change) {
  SparsePush push;
  change.kind = reader.integer<ShareChange::Kind>();
  change.worker = push.worker = reader.integer<std::int32_t>();
  change.number = reader.integer<std::uint64_t>();
  change.rule_steps = reader.integer<std::int64_t>();
  change.total = reader.real();
  push.weight = reader.real();
  push.rate = reader.real();
  const auto decided = reader.integer<std::uint32_t>(), counts = reader.integer<std::uint32_t>();
  const auto ids = reader.integer<std::uint64_t>(), bytes = reader.integer<std::uint64_t>();
  if (!reader.ok() || change.kind < ShareChange::Kind::step ||
      change.kind > ShareChange::Kind::store || change.worker < 0 || !is_measure(change.total) ||
      !is_measure(push.weight) || !is_measure(push.rate))
    return false;
  if (!read_decided(reader, decided, change) || !read_ids(reader, ids, push.rows) ||
      (counts != 0 && counts != ids) || !read_counts(reader, counts, push) ||
      !read_rows(reader, bytes, push.rows))
    return false;
  if (!change.decided.empty()) {
    push.sequence = change.decided.front().sequence;
    push.stamp = change.decided.front().stamp;
  }
  if (has_push(change.kind)) change.pushes.push_back(std::move(push));
  else return ids == 0 && bytes == 0;
  return true;
}

void write_push(const SparsePush& push, WireWriter& writer) {
  writer.integer(static_cast<std::int32_t>(push.worker))
      .integer(push.sequence)
      .integer(push.stamp)
      .real(push.weight)
      .real(push.rate)
      .integer(static_cast<std::uint64_t>(push.rows.ids->size()))
      .integer(static_cast<std::uint64_t>(push.rows.rows.size()))
      .raw(std::as_bytes(std::span(*push.rows.ids)))
      .raw(push.rows.rows);
}

bool read_push(WireReader& reader, SparsePush& push) {
  push.worker = reader.integer<std::int32_t>();
  push.sequence = reader.integer<std::uint64_t>();
  push.stamp = reader.integer<std::int64_t>();
  push.weight = reader.real();
  push.rate = reader.real();
  const auto ids = reader.integer<std::uint64_t>(), bytes = reader.integer<std::uint64_t>();
  return reader.ok() && is_measure(push.weight) && is_measure(push.rate) &&
         read_ids(reader, ids, push.rows) && read_rows(reader, bytes, push.rows);
}

}  // namespace paceline::server
