// TableSpec: what users say of a table on servers, and TableShape: what its machines know of it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/server/consistency/consistency.h"
#include "paceline/core/server/rules/rule.h"
#include "paceline/core/server/table/chain.h"
#include "paceline/core/server/table/range_partition.h"
#include "paceline/core/transport/memory/available_memory.h"

namespace paceline::server {

inline constexpr std::size_t kLongestName = 1000;  // of a table, in bytes

// All workers and servers give the same.
struct TableSpec {
  std::string name;  // unique in the job
  std::size_t elements = 0;
  Dtype dtype = Dtype::f32;       // f32 or f64
  std::string synchrony = "bsp";  // consistency/: "ssp:staleness=3"
  std::string rule = "sgd";       // rules/: "adam:rate=0.01"; with update=worker "add"
  std::size_t part_bytes = kPartBytes;
  // Servers that keep each range: 1 .. kMostReplicas. A Table of a job takes the job's.
  int replicas = 1;
};

// The members that work on a table and those that serve it, ascending. A member may do both.
struct TableMembers {
  std::vector<int> workers, servers;
  // All ranks do both.
  static TableMembers of_ranks(int ranks);
  // The servers of a job are numbered after its workers.
  static TableMembers of_servers(int workers, int servers);
  std::set<int> all() const;
  std::uint64_t mixed_into(std::uint64_t fingerprint) const;
  bool operator==(const TableMembers&) const = default;
};

// Mixes a text into a fingerprint (base/seed.h).
std::uint64_t mix_text(std::uint64_t fingerprint, std::string_view text);

// Why the members cannot keep so many replicas of each part of a table; empty: they can.
std::string complaint_of_replicas(int replicas, const TableMembers& members);

// A TableSpec that makes sense, and what follows from it. A value.
struct TableShape {
  TableSpec spec;
  TableMembers members;
  RuleChoice rule;
  Pacing pacing;
  std::vector<TableRange> ranges;

  std::size_t element_bytes() const { return size_of(spec.dtype); }
  // Arrays of the rule's state, and of what the pacing keeps behind them.
  std::size_t slots() const { return static_cast<std::size_t>(rule.entry.slots + pacing.slots()); }
  int server_of(std::size_t range) const {  // the first one in the beginning: its member number
    return members.servers[chain_of(range)];
  }
  std::size_t chain_of(std::size_t range) const {  // the number of its chain
    return static_cast<std::size_t>(ranges[range].server);
  }
  std::vector<Chain> chains() const { return first_chains(members.servers, spec.replicas); }
  // The elements of a range, part after part, where they lie in the whole table; as a copy; and
  // back into it.
  std::vector<Bytes> pieces(std::size_t range, Bytes table) const;
  std::vector<std::byte> gathered(std::size_t range, Bytes table) const;
  void scatter(std::size_t range, Bytes elements, MutableBytes table) const;
  // Bytes that the member holds of it: a worker all elements, a server its ranges, with the state
  // of the rule, the values of earlier steps and what it keeps of each worker.
  std::size_t bytes_on(int member) const;
  // Equal on members that mean the same table.
  std::uint64_t fingerprint() const;
};

// Whether a member that can have so much memory can hold its part. A failure (misuse) tells both,
// and what limits it.
Result<> check_memory(const TableShape& shape, int member, const transport::MemoryBound& bound);

// A failure (misuse) names the table, the setting and what is valid.
Result<TableShape> shape_of(const TableSpec& spec, const TableMembers& members);

}  // namespace paceline::server
