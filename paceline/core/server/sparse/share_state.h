// ShareState: all that the changes of a share decide, so that replicas which have carried out the
// same changes are equal: the value, the members, and which of their pushes have been decided.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "paceline/core/server/sparse/share_value.h"

namespace paceline::server {

// A value. It reads the shape, which must outlive it.
class ShareState {
 public:
  using Shape = SparseShape;
  using Entry = ShareChange;

  struct Member {
    std::uint64_t decided = 0;     // pushes up to this one are applied, or to be shown
    std::int64_t last_stamp = -1;  // of the last of them
    std::uint64_t resting = 0;     // the number of its rest, while it rests
    std::uint64_t last_rest = 0;   // of the last one that has ended
    std::uint64_t stored = 0;      // exchanges up to this one have stored their rows
    bool operator==(const Member&) const = default;
  };

  // The members of the table's beginning, with clocks of 0, and no rows.
  ShareState(const SparseShape& shape, std::size_t share);

  // Carries out the next change. REQUIRES: complaint(change) is empty.
  void apply(ShareChange change);
  // Why the change cannot be the next one; empty: it can.
  std::string complaint(const ShareChange& change) const;
  std::uint64_t top() const { return top_; }  // changes so far

  const ShareValue& value() const { return value_; }
  const std::map<int, Member>& members() const { return members_; }
  bool has(int worker) const { return members_.contains(worker); }

  void write(transport::WireWriter& writer) const;
  // False: the bytes are not a state of this share, and this one is of no use any more.
  bool read(transport::WireReader& reader);

 private:
  std::string_view complaint_of_pushes(const ShareChange& change) const;
  bool counts_fit(const SparsePush& mean, std::size_t pushes) const;
  std::string_view complaint_of_member(const ShareChange& change) const;

  const SparseShape* shape_;
  std::size_t share_;
  ShareValue value_;
  std::map<int, Member> members_;
  std::uint64_t top_ = 0;
};

}  // namespace paceline::server
