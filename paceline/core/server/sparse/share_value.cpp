#include "paceline/core/server/sparse/share_value.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "paceline/core/base/reduce.h"

namespace paceline::server {
namespace {

constexpr std::size_t kAtATime = 32;  // rows whose memory is fetched together

}  // namespace

ShareValue::ShareValue(const SparseShape& shape)
    : shape_(&shape),
      stamp_place_(shape.value_bytes() + shape.state_bytes() - shape.stamp_bytes()) {
  arcs_.reserve(kArcsPerServer);
  for (int i = 0; i < kArcsPerServer; ++i)
    arcs_.emplace_back(shape.value_bytes() + shape.state_bytes());
  const std::size_t count_bytes = sizeof(std::uint32_t) * (shape.evicts() ? 2 : 1);
  for (int i = 0; i < kArcsPerServer && shape.counts_pushes(); ++i)
    counted_.emplace_back(count_bytes);
  for (const int worker : shape.members.workers) clocks_[worker] = 0;
}

// --- changes -------------------------------------------------------------------------------------

void ShareValue::apply(ShareChange change) {
  switch (change.kind) {
    case ShareChange::Kind::step:
      ++closed_steps_;
      if (change.pushes.empty() || change.total <= 0) return;  // if nothing counts, nothing moves
      ++rule_steps_;
      return update(change.pushes.front());
    case ShareChange::Kind::taken:
      clocks_.at(change.worker) = change.pushes.front().stamp + 1;
      waiting_.push_back(std::move(change.pushes.front()));
      return show();
    case ShareChange::Kind::leave:
      clocks_.erase(change.worker);
      weights_.erase(change.worker);
      resting_.erase(change.worker);
      return show();
    case ShareChange::Kind::rest: resting_.insert(change.worker); return show();
    case ShareChange::Kind::wake:
      if (!shape_->pacing.by_steps) {
        const std::int64_t highest = clock();
        for (auto& [worker, own] : clocks_) own = highest;
      }
      return resting_.clear();
    case ShareChange::Kind::store:
      rule_steps_ = std::max(rule_steps_, change.rule_steps);
      for (const SparsePush& saved : change.pushes) store(saved);
      return;
  }
}

std::int64_t ShareValue::clock() const {
  if (shape_->pacing.by_steps) return closed_steps_;
  std::int64_t lowest = kAnyLead, highest = 0;
  for (const auto& [worker, own] : clocks_) {
    if (!rests(worker)) lowest = std::min(lowest, own);
    highest = std::max(highest, own);
  }
  return std::min(lowest, highest);  // the highest, if all rest
}

ShareChange ShareValue::step_of(std::vector<SparsePush> pushes) const {
  ShareChange change{.kind = ShareChange::Kind::step};
  for (const SparsePush& push : pushes) change.total += push.weight;
  if (pushes.empty()) return change;
  mean_of(pushes, change.total);
  change.pushes.push_back(std::move(pushes.front()));
  return change;
}

// Updates of one stamp are one sum; stamps follow each other.
void ShareValue::show() {
  if (shape_->pacing.by_steps || waiting_.empty()) return;
  const std::int64_t edge = shape_->pacing.shown_below(clock());
  const auto kept = std::ranges::stable_partition(
      waiting_, [&](const SparsePush& push) { return push.stamp >= edge; });
  std::vector<SparsePush> shown(std::make_move_iterator(kept.begin()),
                                std::make_move_iterator(kept.end()));
  waiting_.erase(kept.begin(), kept.end());
  std::ranges::sort(shown, {},
                    [](const SparsePush& push) { return std::tie(push.stamp, push.worker); });
  for (auto first = shown.begin(); first != shown.end();) {
    const auto last = std::find_if(
        first, shown.end(), [&](const SparsePush& push) { return push.stamp != first->stamp; });
    std::vector<SparsePush> of_one_stamp(std::make_move_iterator(first),
                                         std::make_move_iterator(last));
    // A weight counts with its update, so that it does not matter who pushes ahead of a reader.
    for (const SparsePush& push : of_one_stamp) weights_[push.worker] = push.weight;
    const double total = total_of_all();
    if (total > 0) {
      ++rule_steps_;
      mean_of(of_one_stamp, total);
      update(of_one_stamp.front());
    }
    first = last;
  }
}

// Workers that have said no weight yet count as the mean of those that have.
double ShareValue::total_of_all() const {
  double said = 0;
  for (const auto& [worker, weight] : weights_) said += weight;
  if (weights_.size() == clocks_.size() || weights_.empty()) return said;
  return said * static_cast<double>(clocks_.size()) / static_cast<double>(weights_.size());
}

// The result stands where the first push was.
void ShareValue::mean_of(std::vector<SparsePush>& pushes, double total) const {
  const Dtype dtype = shape_->spec.dtype;
  std::vector<SparseRows*> terms;
  std::vector<SharedIds> lists;
  for (SparsePush& push : pushes) {
    if (shape_->counts_pushes()) lists.push_back(push.rows.ids);
    if (push.weight != 1) scale(dtype, push.rows.rows, push.weight);
    terms.push_back(&push.rows);
  }
  sum_in_place(terms, [&](SparseRows* left, SparseRows* right) {
    add_rows(*left, *right, *shape_);
    return left;
  });
  if (total > 0 && total != 1) scale(dtype, terms.front()->rows, 1 / total);
  if (lists.size() > 1) pushes.front().counts = counts_of(*terms.front()->ids, lists);
}

// --- rows ----------------------------------------------------------------------------------------

namespace {

// Calls body(i, hash, arc) for each id, when what a find reads there has been fetched.
template <typename ArcOf, typename Body>
void for_each_fetched(std::span<const std::uint64_t> ids, const ArcOf& arc_of, const Body& body) {
  std::array<std::uint64_t, kAtATime> hashes;
  for (std::size_t first = 0; first < ids.size(); first += kAtATime) {
    const std::size_t count = std::min(kAtATime, ids.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      hashes[i] = hash_of_id(ids[first + i]);
      arc_of(hashes[i]).fetch(hashes[i]);
    }
    for (std::size_t i = 0; i < count; ++i) arc_of(hashes[i]).fetch_row(hashes[i]);
    for (std::size_t i = 0; i < count; ++i) body(first + i, hashes[i]);
  }
}

}  // namespace

void ShareValue::read(std::span<const std::uint64_t> ids, std::byte* rows) const {
  const std::size_t bytes = shape_->value_bytes();
  const auto arc_of_hash = [this](std::uint64_t hash) -> const RowStore& { return arc_of(hash); };
  const auto read_those = [&](const auto& lives) {
    for_each_fetched(ids, arc_of_hash, [&](std::size_t i, std::uint64_t hash) {
      const std::byte* const row = arc_of(hash).find(ids[i], hash);
      if (row != nullptr && lives(row)) std::memcpy(rows + i * bytes, row, bytes);
      else begin_row(*shape_, ids[i], rows + i * bytes);
    });
  };
  if (shape_->evicts()) read_those([this](const std::byte* row) { return !is_past(row); });
  else read_those([](const std::byte*) { return true; });
}

void ShareValue::update(SparsePush& mean) {
  const std::size_t bytes = shape_->value_bytes();
  const std::size_t slot_bytes =
      shape_->rule.slot_elements(shape_->spec.width) * shape_->element_bytes();
  std::vector<double> settings = shape_->settings;
  settings.front() = mean.rate;
  std::vector<std::byte*> slots(static_cast<std::size_t>(shape_->rule.slots));
  RuleStep step{.dtype = shape_->spec.dtype,
                .count = shape_->spec.width,
                .slots = slots,
                .number = rule_steps_,
                .settings = settings};
  const IdList& ids = *mean.rows.ids;
  const bool evicts = shape_->evicts();
  const auto arc_of_hash = [this](std::uint64_t hash) -> const RowStore& { return arc_of(hash); };
  for_each_fetched(ids, arc_of_hash, [&](std::size_t i, std::uint64_t hash) {
    std::byte* row = arc_of(hash).find(ids[i], hash);
    if (row == nullptr || (evicts && is_past_at(row + stamp_place_, rule_steps_ - 1))) {
      row = begin(ids[i], hash, row, mean.counts.empty() ? 1 : mean.counts[i]);
      if (row == nullptr) return;
    }
    if (evicts) write_stamp(row + stamp_place_);
    for (std::size_t j = 0; j < slots.size(); ++j) slots[j] = row + bytes + j * slot_bytes;
    step.value = row;
    step.gradient = mean.rows.rows.data() + i * bytes;
    shape_->rule.step(step);
  });
  if (evicts) sweep();
}

void ShareValue::store(const SparsePush& saved) {
  const std::size_t bytes = shape_->value_bytes() + shape_->state_bytes();
  for (std::size_t i = 0; i < saved.rows.ids->size(); ++i) {
    const std::uint64_t id = (*saved.rows.ids)[i], hash = hash_of_id(id);
    RowStore& arc = arc_of(hash);
    std::byte* row = arc.find(id, hash);
    if (row == nullptr) row = arc.add(id, hash);
    std::memcpy(row, saved.rows.rows.data() + i * bytes, bytes);
    forget_count(id, hash);
  }
}

namespace {

std::size_t rows_in(const std::vector<RowStore>& stores) {
  std::size_t all = 0;
  for (const RowStore& store : stores) all += store.rows();
  return all;
}

}  // namespace

std::size_t ShareValue::rows() const {
  return rows_in(arcs_);
}

std::size_t ShareValue::counted() const {
  return rows_in(counted_);
}

std::size_t ShareValue::memory() const {
  std::size_t all = 0;
  for (const auto* stores : {&arcs_, &counted_})
    for (const RowStore& store : *stores) all += store.memory();
  return all;
}

}  // namespace paceline::server
