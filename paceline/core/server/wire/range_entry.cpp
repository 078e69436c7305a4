#include "paceline/core/server/wire/range_entry.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "paceline/core/server/wire/packet.h"

namespace paceline::server {
namespace {

using transport::WireReader;
using transport::WireWriter;

bool is_weight(double one) {
  return one >= 0 && std::isfinite(one);
}

bool read_pushes(WireReader& reader, std::uint32_t count, std::vector<PushFacts>& pushes) {
  if (reader.rest().size() / kPushBytes < count) return false;
  pushes.resize(count);
  for (PushFacts& push : pushes) {
    push.worker = reader.integer<std::int32_t>();
    reader.integer<std::uint32_t>();
    push.sequence = reader.integer<std::uint64_t>();
    push.stamp = reader.integer<std::int64_t>();
    push.weight = reader.real();
    push.read = reader.integer<std::uint64_t>();
    if (push.worker < 0 || !is_weight(push.weight)) return false;
  }
  return true;
}

bool read_settings(WireReader& reader, std::uint32_t count, std::vector<double>& settings) {
  if (count > kMostSettings) return false;
  for (std::uint32_t i = 0; i < count; ++i) settings.push_back(reader.real());
  return std::ranges::all_of(settings, [](double one) { return std::isfinite(one); });
}

}  // namespace

std::string_view name_of(EntryKind kind) {
  constexpr std::array<std::string_view, 14> kNames = {
      "unknown", "assign", "join", "raise", "leave", "quiesce", "wake",
      "awake",   "show",   "fold", "drop",  "late",  "step",    "round"};
  const auto number = static_cast<std::size_t>(kind);
  return kNames[number < kNames.size() ? number : 0];
}

std::size_t bytes_of(const RangeEntry& entry) {
  return kEntryHeader + kPushBytes * entry.pushes.size() + sizeof(double) * entry.settings.size() +
         entry.values.size();
}

void write_entry(const RangeEntry& entry, WireWriter& writer) {
  writer.integer(entry.kind)
      .integer(static_cast<std::int32_t>(entry.member))
      .integer(entry.clock)
      .real(entry.total)
      .integer(static_cast<std::uint32_t>(entry.pushes.size()))
      .integer(static_cast<std::uint32_t>(entry.settings.size()))
      .integer(static_cast<std::uint64_t>(entry.values.size()));
  for (const PushFacts& push : entry.pushes)
    writer.integer(static_cast<std::int32_t>(push.worker))
        .integer(std::uint32_t{0})
        .integer(push.sequence)
        .integer(push.stamp)
        .real(push.weight)
        .integer(push.read);
  for (const double setting : entry.settings) writer.real(setting);
  writer.raw(entry.values);
}

bool read_entry(WireReader& reader, RangeEntry& entry) {
  entry.kind = reader.integer<EntryKind>();
  entry.member = reader.integer<std::int32_t>();
  entry.clock = reader.integer<std::int64_t>();
  entry.total = reader.real();
  const auto pushes = reader.integer<std::uint32_t>();
  const auto settings = reader.integer<std::uint32_t>();
  const auto values = reader.integer<std::uint64_t>();
  if (!reader.ok() || entry.kind < EntryKind::assign || entry.kind > EntryKind::round ||
      entry.member < 0 || !is_weight(entry.total))
    return false;
  if (!read_pushes(reader, pushes, entry.pushes) ||
      !read_settings(reader, settings, entry.settings) || reader.rest().size() < values)
    return false;
  const Bytes bytes = reader.raw(static_cast<std::size_t>(values));
  entry.values.assign(bytes.begin(), bytes.end());
  return reader.ok();
}

}  // namespace paceline::server
