// RangeState: all that the entries of a range decide, so that replicas which have carried out the
// same entries are equal: the value, the members, and which of their pushes have been decided.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/server/machine/range_value.h"
#include "paceline/core/server/wire/range_entry.h"

namespace paceline::server {

// A value. It reads the shape, which must outlive it and its copies.
class RangeState {
 public:
  using Shape = TableShape;
  using Entry = RangeEntry;

  struct Member {
    std::uint64_t decided = 0;     // pushes up to this one are applied, to be shown, or dropped
    std::uint32_t dropped = 0;     // of them
    std::int64_t last_stamp = -1;  // of the last of them
    std::uint32_t quiet = 0;       // the number of its request to be quiet, while it is
    std::uint32_t last_quiet = 0;  // of the last one that has ended
    bool is_waking = false;        // it may not have the values of that moment yet
    bool operator==(const Member&) const = default;
  };

  // The members of the table's beginning, with clocks of 0, and zeros.
  RangeState(const TableShape& shape, std::size_t range);

  // Carries out the next entry. REQUIRES: complaint(entry) is empty.
  void apply(RangeEntry entry);
  // Why the entry cannot be the next one; empty: it can.
  std::string complaint(const RangeEntry& entry) const;
  std::uint64_t top() const { return top_; }  // entries so far

  const RangeValue& value() const { return value_; }
  const std::map<int, Member>& members() const { return members_; }
  bool has(int worker) const { return members_.contains(worker); }
  bool has_left(int worker) const { return gone_.contains(worker); }  // and never comes again
  bool has_values() const { return has_values_; }                     // first ones
  bool is_waking() const;  // members may not have the values of the last quiet moment
  // See RangeValue; it is no change of what the replicas share.
  RangeValue::View row_for(int reader, std::uint32_t pull, std::int64_t least) {
    return value_.row_for(reader, pull, least);
  }
  // Late pushes that count in the open step.
  const std::vector<Push>& folded() const { return folded_; }

  void write(transport::WireWriter& writer) const;
  // False: the bytes are not a state of this range, and this one is of no use any more.
  bool read(transport::WireReader& reader);

 private:
  void decide(const PushFacts& push, bool dropped = false);
  void leave(int worker);
  void wake();
  void close_step(const RangeEntry& entry);
  void close_round(const RangeEntry& entry);
  std::string complaint_of_values(const RangeEntry& entry) const;
  std::string complaint_of_pushes(const RangeEntry& entry) const;
  std::string complaint_of_round(const RangeEntry& entry) const;
  bool is_next_of(const PushFacts& push) const;

  const TableShape* shape_;
  std::uint32_t range_;
  RangeValue value_;
  std::map<int, Member> members_;
  std::set<int> gone_;
  std::vector<Push> folded_;
  bool has_values_ = false;
  std::uint64_t top_ = 0;
};

}  // namespace paceline::server
