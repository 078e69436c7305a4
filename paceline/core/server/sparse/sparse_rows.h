// SparseRows: rows of some ids, as pushes carry them; and IdPlan: how a worker's list of ids, in
// any order and with repetitions, becomes lists of unique ids, ascending, one for each server.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "paceline/core/server/sparse/sparse_spec.h"

namespace paceline::server {

// Ascending and unique.
using IdList = std::vector<std::uint64_t>;
using SharedIds = std::shared_ptr<const IdList>;

// A list by which both sides know that they mean the same: a request holds it in place of a list
// that the server has.
struct ListKey {
  std::uint64_t hash = 0, count = 0;
  bool operator==(const ListKey&) const = default;
};
ListKey key_of(const IdList& ids);

// A value. Row i, of equally many bytes as every other one, belongs to id i.
struct SparseRows {
  SharedIds ids = std::make_shared<const IdList>();
  std::vector<std::byte> rows = {};
};

bool ascend(const IdList& ids);  // and none comes twice
// Whether the ids belong to the share and have so many bytes each.
bool fits(const SparseRows& rows, const SparseShape& shape, std::size_t share, std::size_t each);

// left += right, where an id that one side lacks counts as zeros there.
void add_rows(SparseRows& left, const SparseRows& right, const SparseShape& shape);

// How many of the lists have each of the ids. REQUIRES: `ids` has all of theirs.
std::vector<std::uint32_t> counts_of(const IdList& ids, const std::vector<SharedIds>& lists);

// The ids of a request, cut by the servers that have their rows.
struct IdPlan {
  std::vector<std::int64_t> given;  // as the user gave them
  struct Share {
    SharedIds ids;
    ListKey key;
  };
  std::vector<Share> shares;  // by server
  // For each id that was given: the share, and its number in the share's list.
  struct Place {
    std::uint32_t share = 0, number = 0;
  };
  std::vector<Place> places;
};
using SharedPlan = std::shared_ptr<const IdPlan>;

// THROWS Error (misuse): an id is negative or has more than 48 bits.
SharedPlan plan_of(std::span<const std::int64_t> ids, const SparseShape& shape);

// The rows that each share gets of `rows`, one for each id that was given: those of an id that was
// given several times are summed in the order in which they occur.
std::vector<std::vector<std::byte>> summed_rows(const IdPlan& plan, Bytes rows,
                                                const SparseShape& shape);

// ListCache: the lists of ids that one member has sent to another most recently. Both keep one, and
// change it alike; what one side lacks nevertheless is asked for again.
class ListCache {
 public:
  static constexpr std::size_t kMostLists = 8, kMostIds = std::size_t{1} << 20;  // in all of them

  // The list, which is the most recent one from here on, or null.
  SharedIds find(const ListKey& key);
  void put(const ListKey& key, SharedIds ids);
  void clear() { lists_.clear(); }

 private:
  struct Entry {
    ListKey key;
    SharedIds ids;
  };
  std::vector<Entry> lists_;  // the most recent one last
};

}  // namespace paceline::server
