// A share's value as bytes, which a server gets that is to keep it too.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "paceline/core/server/sparse/share_value.h"

namespace paceline::server {
namespace {

bool is_clock(std::int64_t one) {
  return one >= 0 && one <= RuleState::kMostSteps + 1;
}

}  // namespace

void ShareValue::write(transport::WireWriter& writer) const {
  const std::size_t row_bytes = shape_->value_bytes() + shape_->state_bytes();
  writer.reserve(writer.bytes().size() + rows() * (sizeof(std::uint64_t) + row_bytes));
  writer.integer(rule_steps_)
      .integer(closed_steps_)
      .integer(static_cast<std::uint32_t>(clocks_.size()))
      .integer(static_cast<std::uint32_t>(weights_.size()))
      .integer(static_cast<std::uint32_t>(resting_.size()))
      .integer(static_cast<std::uint32_t>(waiting_.size()));
  for (const auto& [worker, clock] : clocks_)
    writer.integer(static_cast<std::int32_t>(worker)).integer(clock);
  for (const auto& [worker, weight] : weights_)
    writer.integer(static_cast<std::int32_t>(worker)).real(weight);
  for (const int worker : resting_) writer.integer(static_cast<std::int32_t>(worker));
  for (const SparsePush& push : waiting_) write_push(push, writer);
  for (const RowStore& arc : arcs_) {
    writer.integer(static_cast<std::uint64_t>(arc.rows()));
    for (std::size_t row = 0; row < arc.rows(); ++row)
      writer.integer(arc.id_of(row)).raw({arc.at(row), row_bytes});
  }
}

bool ShareValue::read(transport::WireReader& reader, std::size_t share) {
  if (!read_workers(reader) || !read_waiting(reader, share)) return false;
  for (std::size_t place = 0; place < arcs_.size(); ++place)
    if (!read_arc(reader, place, share)) return false;
  return reader.ok();
}

bool ShareValue::read_workers(transport::WireReader& reader) {
  rule_steps_ = reader.integer<std::int64_t>();
  closed_steps_ = reader.integer<std::int64_t>();
  const auto clocks = reader.integer<std::uint32_t>(), weights = reader.integer<std::uint32_t>(),
             resting = reader.integer<std::uint32_t>(), waiting = reader.integer<std::uint32_t>();
  bool is_right = is_clock(rule_steps_) && is_clock(closed_steps_);
  clocks_.clear();
  for (std::uint32_t i = 0; i < clocks && reader.ok() && is_right; ++i) {
    const auto worker = reader.integer<std::int32_t>();
    is_right = is_clock(clocks_[worker] = reader.integer<std::int64_t>());
  }
  is_right = is_right && clocks_.size() == clocks;
  for (std::uint32_t i = 0; i < weights && reader.ok() && is_right; ++i) {
    const auto worker = reader.integer<std::int32_t>();
    const double weight = weights_[worker] = reader.real();
    is_right = clocks_.contains(worker) && std::isfinite(weight) && weight >= 0;
  }
  for (std::uint32_t i = 0; i < resting && reader.ok() && is_right; ++i) {
    const auto worker = reader.integer<std::int32_t>();
    is_right = clocks_.contains(worker) && resting_.insert(worker).second;
  }
  if (!reader.ok() || !is_right || weights_.size() != weights) return false;
  constexpr std::size_t kLeastBytes = 52;  // of a push
  if (reader.rest().size() / kLeastBytes < waiting) return false;
  waiting_.assign(waiting, {});
  return true;
}

bool ShareValue::read_waiting(transport::WireReader& reader, std::size_t share) {
  if (shape_->pacing.by_steps && !waiting_.empty()) return false;
  return std::ranges::all_of(waiting_, [&](SparsePush& push) {
    return read_push(reader, push) && is_clock(push.stamp) && clocks_.contains(push.worker) &&
           ascend(*push.rows.ids) && fits(push.rows, *shape_, share, shape_->value_bytes());
  });
}

bool ShareValue::read_arc(transport::WireReader& reader, std::size_t place, std::size_t share) {
  const std::size_t row_bytes = shape_->value_bytes() + shape_->state_bytes();
  const auto rows = reader.integer<std::uint64_t>();
  if (reader.rest().size() / (sizeof(std::uint64_t) + row_bytes) < rows) return false;
  RowStore& arc = arcs_[place];
  for (std::uint64_t row = 0; row < rows; ++row) {
    const auto id = reader.integer<std::uint64_t>();
    const std::uint64_t hash = hash_of_id(id), of = shape_->arc_of(hash);
    if (id >= kIdBound || shape_->share_of(hash) != share || shape_->place_of(of) != place ||
        arc.find(id, hash) != nullptr)
      return false;
    std::memcpy(arc.add(id, hash), reader.raw(row_bytes).data(), row_bytes);
  }
  return true;
}

}  // namespace paceline::server
