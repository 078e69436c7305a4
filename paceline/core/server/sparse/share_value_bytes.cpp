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

void write_store(const RowStore& store, transport::WireWriter& writer) {
  writer.integer(static_cast<std::uint64_t>(store.rows()));
  for (std::size_t row = 0; row < store.rows(); ++row)
    writer.integer(store.id_of(row)).raw({store.at(row), store.row_bytes()});
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
  for (const RowStore& arc : arcs_) write_store(arc, writer);
  write_ages(writer);
}

// Tables that neither count nor evict have none of this.
void ShareValue::write_ages(transport::WireWriter& writer) const {
  for (const RowStore& counts : counted_) write_store(counts, writer);
  if (shape_->evicts())
    writer.integer(evicted_).integer(cursor_.store).integer(cursor_.row).integer(cursor_.looks);
}

bool ShareValue::read(transport::WireReader& reader, std::size_t share) {
  if (!read_workers(reader) || !read_waiting(reader, share)) return false;
  for (std::size_t place = 0; place < arcs_.size(); ++place)
    if (!read_store(reader, place, share, arcs_[place])) return false;
  return read_ages(reader, share) && reader.ok();
}

bool ShareValue::read_ages(transport::WireReader& reader, std::size_t share) {
  for (std::size_t place = 0; place < counted_.size(); ++place) {
    RowStore& counts = counted_[place];
    if (!read_store(reader, place, share, counts)) return false;
    for (std::size_t row = 0; row < counts.rows(); ++row) {
      const std::uint64_t id = counts.id_of(row);
      const std::uint32_t pushes = number_at(counts.at(row));
      if (pushes == 0 || pushes >= static_cast<std::uint32_t>(shape_->spec.admit_after) ||
          arcs_[place].find(id, hash_of_id(id)) != nullptr)
        return false;
    }
  }
  if (!shape_->evicts()) return true;
  evicted_ = reader.integer<std::uint64_t>();
  cursor_.store = reader.integer<std::uint32_t>();
  cursor_.row = reader.integer<std::uint64_t>();
  cursor_.looks = reader.integer<std::uint64_t>();
  return cursor_.store < arcs_.size() + counted_.size();
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
    // That of a worker that has left is there once its last waiting push is shown.
    is_right = std::ranges::binary_search(shape_->members.workers, worker) &&
               std::isfinite(weight) && weight >= 0;
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

// Pushes of workers that have left since wait for their clock, too.
bool ShareValue::read_waiting(transport::WireReader& reader, std::size_t share) {
  if (shape_->pacing.by_steps && !waiting_.empty()) return false;
  return std::ranges::all_of(waiting_, [&](SparsePush& push) {
    return read_push(reader, push) && is_clock(push.stamp) &&
           std::ranges::binary_search(shape_->members.workers, push.worker) &&
           ascend(*push.rows.ids) && fits(push.rows, *shape_, share, shape_->value_bytes());
  });
}

bool ShareValue::read_store(transport::WireReader& reader, std::size_t place, std::size_t share,
                            RowStore& store) const {
  const std::size_t row_bytes = store.row_bytes();
  const auto rows = reader.integer<std::uint64_t>();
  if (reader.rest().size() / (sizeof(std::uint64_t) + row_bytes) < rows) return false;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const auto id = reader.integer<std::uint64_t>();
    const std::uint64_t hash = hash_of_id(id), of = shape_->arc_of(hash);
    if (id >= kIdBound || shape_->share_of(hash) != share || shape_->place_of(of) != place ||
        store.find(id, hash) != nullptr)
      return false;
    std::memcpy(store.add(id, hash), reader.raw(row_bytes).data(), row_bytes);
  }
  return true;
}

}  // namespace paceline::server
