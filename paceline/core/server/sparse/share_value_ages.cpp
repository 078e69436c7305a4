// Rows of a share that are not stored at once, and rows and counts that go because of their age.
#include <algorithm>
#include <cstring>

#include "paceline/core/server/sparse/share_value.h"

namespace paceline::server {
namespace {

constexpr std::uint64_t kMostLooks = 16'384;  // of the sweep, in one step

void take_off(RowStore& store, std::uint64_t id, std::uint64_t hash) {
  store.remove(id, hash, hash_of_id(store.id_of(store.rows() - 1)));
}

}  // namespace

// Stamps are cut to 32 bits. The sweep comes by long before that many steps are over. A stamp may be
// ahead of the steps: rows that are put back were saved by shares of which some had made more.
bool ShareValue::is_past_at(const std::byte* stamp, std::int64_t steps) const {
  const auto age = static_cast<std::int32_t>(static_cast<std::uint32_t>(steps) - number_at(stamp));
  return age >= shape_->spec.evict_after;
}

void ShareValue::write_stamp(std::byte* stamp) const {
  const auto steps = static_cast<std::uint32_t>(rule_steps_);
  std::memcpy(stamp, &steps, sizeof steps);
}

// The row of an id that has none, or one that is past its age: null if these pushes only count.
std::byte* ShareValue::begin(std::uint64_t id, std::uint64_t hash, std::byte* past,
                             std::uint32_t pushes) {
  RowStore& arc = arc_of(hash);
  if (past != nullptr) ++evicted_;
  if (!admits(id, hash, pushes)) {
    if (past != nullptr) take_off(arc, id, hash);
    return nullptr;
  }
  std::byte* const row = past != nullptr ? past : arc.add(id, hash);
  begin_row(*shape_, id, row);
  std::memset(row + shape_->value_bytes(), 0, shape_->state_bytes());
  return row;
}

bool ShareValue::admits(std::uint64_t id, std::uint64_t hash, std::uint32_t pushes) {
  if (!shape_->counts_pushes()) return true;
  RowStore& counts = counted_[shape_->place_of(shape_->arc_of(hash))];
  std::byte* counted = counts.find(id, hash);
  const bool is_known =
      counted != nullptr &&
      !(shape_->evicts() && is_past_at(counted + sizeof(std::uint32_t), rule_steps_ - 1));
  const std::uint32_t all = pushes + (is_known ? number_at(counted) : 0);
  if (all >= static_cast<std::uint32_t>(shape_->spec.admit_after)) {
    if (counted != nullptr) take_off(counts, id, hash);
    return true;
  }
  if (counted == nullptr) counted = counts.add(id, hash);
  std::memcpy(counted, &all, sizeof all);
  if (shape_->evicts()) write_stamp(counted + sizeof all);
  return false;
}

// Its row has come from elsewhere.
void ShareValue::forget_count(std::uint64_t id, std::uint64_t hash) {
  if (!shape_->counts_pushes()) return;
  RowStore& counts = counted_[shape_->place_of(shape_->arc_of(hash))];
  if (counts.find(id, hash) != nullptr) take_off(counts, id, hash);
}

RowStore& ShareValue::store_to_sweep(std::size_t number) {
  return number < arcs_.size() ? arcs_[number] : counted_[number - arcs_.size()];
}

// A pass comes by every row and count in evict_after steps, or in more where they are very many.
void ShareValue::sweep() {
  const std::size_t stores = arcs_.size() + counted_.size(), all = stores + rows() + counted();
  const auto steps = static_cast<std::size_t>(shape_->spec.evict_after);
  cursor_.looks = std::max<std::uint64_t>(cursor_.looks, all / steps + 1);
  for (auto looks = std::min<std::uint64_t>(cursor_.looks, kMostLooks); looks > 0; --looks) {
    RowStore& store = store_to_sweep(cursor_.store);
    if (cursor_.row >= store.rows()) {
      cursor_.row = 0;
      if (++cursor_.store == stores) cursor_ = {};
      continue;
    }
    const auto row = static_cast<std::size_t>(cursor_.row);
    const bool is_arc = cursor_.store < arcs_.size();
    if (!is_past_at(store.at(row) + (is_arc ? stamp_place_ : sizeof(std::uint32_t)), rule_steps_)) {
      ++cursor_.row;
      continue;
    }
    const std::uint64_t id = store.id_of(row);
    take_off(store, id, hash_of_id(id));
    evicted_ += is_arc ? 1 : 0;
  }
}

}  // namespace paceline::server
