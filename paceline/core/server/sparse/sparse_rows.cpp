#include "paceline/core/server/sparse/sparse_rows.h"

#include <algorithm>
#include <cstring>

#include "paceline/core/base/check.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/base/seed.h"

namespace paceline::server {
namespace {

using Occurrence = std::pair<std::uint64_t, std::uint32_t>;  // an id, and where it was given

std::vector<Occurrence> sorted_occurrences(std::span<const std::int64_t> ids) {
  PACELINE_CHECK(ids.size() < UINT32_MAX, "{} ids in one request, which may have {}", ids.size(),
                 UINT32_MAX - 1);
  std::vector<Occurrence> all(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::uint64_t>(ids[i]);
    PACELINE_CHECK(id < kIdBound,
                   "id {} at place {}: ids of a sparse table have 48 bits, 0 to {}; hash or number "
                   "them so",
                   ids[i], i, kIdBound - 1);
    all[i] = {id, static_cast<std::uint32_t>(i)};
  }
  std::ranges::sort(all);
  return all;
}

// The first operand may be the target.
template <typename T>
void add_row(const std::byte* left, const std::byte* right, std::byte* target, std::size_t width) {
  const T* const a = reinterpret_cast<const T*>(left);
  const T* const b = reinterpret_cast<const T*>(right);
  T* const sum = reinterpret_cast<T*>(target);
  for (std::size_t i = 0; i < width; ++i) sum[i] = a[i] + b[i];
}

void add_row(const SparseShape& shape, const std::byte* left, const std::byte* right,
             std::byte* target) {
  shape.spec.dtype == Dtype::f64 ? add_row<double>(left, right, target, shape.spec.width)
                                 : add_row<float>(left, right, target, shape.spec.width);
}

}  // namespace

ListKey key_of(const IdList& ids) {
  std::uint64_t hash = 0x6964206c697374;
  for (const std::uint64_t id : ids) hash = mix(hash, id);
  return {hash, ids.size()};
}

bool ascend(const IdList& ids) {
  return std::ranges::adjacent_find(ids, std::ranges::greater_equal()) == ids.end();
}

bool fits(const SparseRows& rows, const SparseShape& shape, std::size_t share, std::size_t each) {
  return rows.rows.size() == rows.ids->size() * each &&
         std::ranges::all_of(*rows.ids, [&](std::uint64_t id) {
           return id < kIdBound && shape.share_of(hash_of_id(id)) == share;
         });
}

void add_rows(SparseRows& left, const SparseRows& right, const SparseShape& shape) {
  const std::size_t bytes = shape.value_bytes();
  if (left.ids == right.ids || *left.ids == *right.ids)
    return reduce(ReduceOp::sum, shape.spec.dtype, left.rows, right.rows, left.rows);
  IdList ids;
  ids.reserve(left.ids->size() + right.ids->size());
  std::ranges::set_union(*left.ids, *right.ids, std::back_inserter(ids));
  std::vector<std::byte> rows(ids.size() * bytes);
  std::size_t l = 0, r = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool in_left = l < left.ids->size() && (*left.ids)[l] == ids[i];
    const bool in_right = r < right.ids->size() && (*right.ids)[r] == ids[i];
    const std::byte* const one = left.rows.data() + l * bytes;
    const std::byte* const other = right.rows.data() + r * bytes;
    if (in_left && in_right) add_row(shape, one, other, rows.data() + i * bytes);
    else std::memcpy(rows.data() + i * bytes, in_left ? one : other, bytes);
    l += in_left ? 1 : 0;
    r += in_right ? 1 : 0;
  }
  left = {std::make_shared<const IdList>(std::move(ids)), std::move(rows)};
}

std::vector<std::uint32_t> counts_of(const IdList& ids, const std::vector<SharedIds>& lists) {
  std::vector<std::uint32_t> counts(ids.size());
  for (const SharedIds& list : lists) {
    std::size_t at = 0;
    for (const std::uint64_t id : *list) {
      while (ids[at] != id) ++at;
      ++counts[at];
    }
  }
  return counts;
}

SharedPlan plan_of(std::span<const std::int64_t> ids, const SparseShape& shape) {
  auto plan = std::make_shared<IdPlan>();
  plan->given.assign(ids.begin(), ids.end());
  plan->places.resize(ids.size());
  std::vector<IdList> lists(shape.servers());
  for (IdList& list : lists) list.reserve(ids.size() / lists.size() + 1);
  std::uint64_t last = kIdBound;
  IdPlan::Place place;
  for (const auto& [id, at] : sorted_occurrences(ids)) {
    if (id != last) {
      place.share = static_cast<std::uint32_t>(shape.share_of(hash_of_id(id)));
      place.number = static_cast<std::uint32_t>(lists[place.share].size());
      lists[place.share].push_back(id);
      last = id;
    }
    plan->places[at] = place;
  }
  for (IdList& list : lists) {
    const ListKey key = key_of(list);
    plan->shares.push_back({std::make_shared<const IdList>(std::move(list)), key});
  }
  return plan;
}

std::vector<std::vector<std::byte>> summed_rows(const IdPlan& plan, Bytes rows,
                                                const SparseShape& shape) {
  const std::size_t bytes = shape.value_bytes();
  std::vector<std::vector<std::byte>> all(plan.shares.size());
  std::vector<std::vector<bool>> written(plan.shares.size());
  for (std::size_t share = 0; share < all.size(); ++share) {
    all[share].resize(plan.shares[share].ids->size() * bytes);
    written[share].resize(plan.shares[share].ids->size());
  }
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const auto [share, number] = plan.places[i];
    std::byte* const target = all[share].data() + number * bytes;
    const std::byte* const row = rows.data() + i * bytes;
    if (written[share][number]) add_row(shape, target, row, target);
    else std::memcpy(target, row, bytes);
    written[share][number] = true;
  }
  return all;
}

SharedIds ListCache::find(const ListKey& key) {
  const auto found = std::ranges::find(lists_, key, &Entry::key);
  if (found == lists_.end()) return nullptr;
  std::rotate(found, found + 1, lists_.end());
  return lists_.back().ids;
}

void ListCache::put(const ListKey& key, SharedIds ids) {
  if (ids->size() > kMostIds / kMostLists || find(key)) return;
  if (lists_.size() == kMostLists) lists_.erase(lists_.begin());
  lists_.push_back({key, std::move(ids)});
}

}  // namespace paceline::server
