// The bytes of a range's value, by which a new replica gets it.
#include <algorithm>

#include "paceline/core/server/machine/range_value.h"

namespace paceline::server {
namespace {

using transport::WireReader;
using transport::WireWriter;

void write_count(WireWriter& writer, std::size_t count) {
  writer.integer(static_cast<std::uint64_t>(count));
}

// A number of things of which each has so many bytes at least; false: so many did not come.
bool read_count(WireReader& reader, std::size_t least_bytes, std::size_t& count) {
  const auto told = reader.integer<std::uint64_t>();
  count = static_cast<std::size_t>(told);
  return reader.ok() && told <= reader.rest().size() / least_bytes;
}

void write_number(WireWriter& writer, double value) {
  writer.real(value);
}
template <typename T>
requires std::is_integral_v<T>
void write_number(WireWriter& writer, T value) {
  writer.integer(value);
}
void read_number(WireReader& reader, double& value) {
  value = reader.real();
}
template <typename T>
requires std::is_integral_v<T>
void read_number(WireReader& reader, T& value) {
  value = reader.integer<T>();
}

template <typename T>
void write_by_worker(WireWriter& writer, const std::map<int, T>& map) {
  write_count(writer, map.size());
  for (const auto& [worker, value] : map) {
    writer.integer(static_cast<std::int32_t>(worker));
    write_number(writer, value);
  }
}
template <typename T>
bool read_by_worker(WireReader& reader, std::map<int, T>& map) {
  std::size_t count = 0;
  if (!read_count(reader, sizeof(std::int32_t) + sizeof(T), count)) return false;
  map.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const auto worker = reader.integer<std::int32_t>();
    read_number(reader, map[worker]);
  }
  return map.size() == count;
}

bool read_bytes(WireReader& reader, std::vector<std::byte>& into) {
  const Bytes bytes = reader.raw(into.size());
  into.assign(bytes.begin(), bytes.end());
  return reader.ok();
}

}  // namespace

void write_push(const Push& push, WireWriter& writer) {
  write_entry({.kind = EntryKind::show,
               .pushes = {push.facts},
               .settings = push.settings,
               .values = push.values},
              writer);
}

bool read_push(WireReader& reader, std::size_t bytes, Push& push) {
  RangeEntry entry;
  if (!read_entry(reader, entry) || entry.kind != EntryKind::show || entry.pushes.size() != 1 ||
      entry.values.size() != bytes)
    return false;
  push = {entry.pushes.front(), std::move(entry.settings), std::move(entry.values)};
  return true;
}

void RangeValue::write(WireWriter& writer) const {
  writer.raw(value_);
  for (const auto& slot : slots_) writer.raw(slot);
  writer.integer(rule_steps_).integer(updates_).integer(closed_steps_);
  write_by_worker(writer, clocks_);
  write_by_worker(writer, own_);
  write_by_worker(writer, weights_);
  write_by_worker(writer, said_);
  write_count(writer, quiet_.size());
  for (const int worker : quiet_) writer.integer(static_cast<std::int32_t>(worker));
  write_count(writer, readers_.size());
  for (const auto& [worker, reader] : readers_)
    writer.integer(static_cast<std::int32_t>(worker))
        .integer(reader.applied)
        .integer(reader.staleness);
  write_count(writer, step_weights_.size());
  for (const double weight : step_weights_) writer.real(weight);
  write_count(writer, earlier_.size());
  for (const auto& values : earlier_) writer.raw(values);
  write_count(writer, waiting_.size());
  for (const Push& push : waiting_) write_push(push, writer);
  for (const auto& [worker, difference] : differences_) writer.raw(difference);
  if (rounds_) rounds_->write(writer);
}

bool RangeValue::read(WireReader& reader) {
  if (!read_bytes(reader, value_)) return false;
  for (auto& slot : slots_)
    if (!read_bytes(reader, slot)) return false;
  rule_steps_ = reader.integer<std::int64_t>();
  updates_ = reader.integer<std::uint64_t>();
  closed_steps_ = reader.integer<std::int64_t>();
  if (rule_steps_ < 0 || closed_steps_ < 0) return false;
  return read_by_worker(reader, clocks_) && read_by_worker(reader, own_) &&
         read_by_worker(reader, weights_) && read_by_worker(reader, said_) &&
         read_members(reader) && read_history(reader);
}

bool RangeValue::read_members(WireReader& reader) {
  std::size_t count = 0;
  if (!read_count(reader, sizeof(std::int32_t), count)) return false;
  quiet_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const auto worker = reader.integer<std::int32_t>();
    if (!has(worker)) return false;
    quiet_.insert(worker);
  }
  if (!read_count(reader, sizeof(std::int32_t) + 2 * sizeof(std::uint64_t), count)) return false;
  readers_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    Reader& one = readers_[reader.integer<std::int32_t>()];
    one.applied = reader.integer<std::uint64_t>();
    one.staleness = reader.integer<std::uint64_t>();
  }
  return true;
}

bool RangeValue::read_history(WireReader& reader) {
  std::size_t count = 0;
  if (!read_count(reader, sizeof(double), count)) return false;
  step_weights_.clear();
  for (std::size_t i = 0; i < count; ++i) step_weights_.push_back(reader.real());
  if (step_weights_.empty() != (closed_steps_ == 0)) return false;
  if (!read_count(reader, value_.size(), count)) return false;
  earlier_.assign(count, std::vector<std::byte>(value_.size()));
  for (auto& values : earlier_)
    if (!read_bytes(reader, values)) return false;
  if (!read_count(reader, kEntryHeader, count)) return false;
  waiting_.assign(count, {});
  const bool has_waiting = std::ranges::all_of(
      waiting_, [&](Push& push) { return read_push(reader, value_.size(), push); });
  return has_waiting && read_differences(reader) && read_rounds(reader);
}

// Each worker has one.
bool RangeValue::read_differences(WireReader& reader) {
  differences_.clear();
  if (!shape_->pacing.elastic) return true;
  return std::ranges::all_of(clocks_, [&](const auto& one) {
    return read_bytes(reader, differences_.try_emplace(one.first, value_.size()).first->second);
  });
}

// They have the workers that the clocks have.
bool RangeValue::read_rounds(WireReader& reader) {
  if (!rounds_) return true;
  return rounds_->read(reader, value_.size()) && rounds_->workers() == clocks_.size() &&
         std::ranges::all_of(clocks_, [&](const auto& one) { return rounds_->has(one.first); });
}

}  // namespace paceline::server
