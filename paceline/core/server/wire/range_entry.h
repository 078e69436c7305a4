// RangeEntry: a change of a range, which each of its replicas carries out in the same order, and
// its form in bytes.
//
// A range has no other changes than these, so replicas that have carried out the same entries hold
// the same bits. Where workers' pushes make up a step, an entry holds the step: their sum, not the
// pushes (OSDI 2014, 4.3: replication after aggregation). In bytes it is a header of 40 {kind 4,
// member 4, clock 8, total 8, pushes 4, settings 4, bytes of values 8}, then for each push 40
// {worker 4, nothing 4, sequence 8, stamp 8, weight 8, read 8}, 8 for each setting, and the values.
// All is little-endian. read_entry() trusts nothing: it never reads or allocates beyond the bytes
// that came.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {

enum class EntryKind : std::uint32_t {
  assign = 1,  // first values, and slots of the rule's state [clock: steps of the rule]
  join,        // [member]
  raise,       // a newcomer's clock [member, clock]
  leave,       // [member]
  quiesce,     // a worker pushes nothing until all do [member; clock: the number of its request]
  wake,        // all were quiet, and go on
  awake,       // a worker has the values of that moment [member]
  show,        // an update, seen when the pacing allows [one push, its settings and elements]
  fold,        // a late push that counts in the open step [as show]
  drop,        // a push that came too late [one push]
  late,        // a push to an earlier step [one push; total: the weight of that step, settings, its
               // share]
  step,        // closes the open step [its pushes by worker; total, settings, their mean]
  round,       // ends a round [a push of each worker whose contribution is new in it]
};

// A push without its elements.
struct PushFacts {
  int worker = 0;
  std::uint64_t sequence = 0;  // 1, 2, ... of this worker
  std::int64_t stamp = 0;
  double weight = 1;
  std::uint64_t read = 0;  // the version of the range that its worker had read
  bool operator==(const PushFacts&) const = default;
};

struct RangeEntry {
  EntryKind kind = EntryKind::step;
  int member = 0;
  std::int64_t clock = 0;
  double total = 0;
  std::vector<PushFacts> pushes = {};
  std::vector<double> settings = {};  // of the rule
  std::vector<std::byte> values = {};
  bool operator==(const RangeEntry&) const = default;

  // Has one of the members above, which has left or come or been quiet.
  bool is_of_member() const { return kind >= EntryKind::join && kind <= EntryKind::awake; }
};

std::string_view name_of(EntryKind kind);

inline constexpr std::size_t kEntryHeader = 40, kPushBytes = 40;
std::size_t bytes_of(const RangeEntry& entry);
void write_entry(const RangeEntry& entry, transport::WireWriter& writer);
// Reads one; false if the bytes are no entry.
bool read_entry(transport::WireReader& reader, RangeEntry& entry);

}  // namespace paceline::server
