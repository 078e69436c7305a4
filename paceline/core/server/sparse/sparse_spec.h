// SparseTableSpec: what users say of a sparse table, and SparseShape: what its machines know of it.
//
// A sparse table has a row of `width` elements for each id of 48 bits. A row that nobody has pushed
// to is not stored: it is a pure function of the seed, the table's name and the id. Ids are hashed;
// the hashes are cut into 64 equal arcs a server, which are dealt evenly: arc i belongs to server
// i % servers. The arcs of one server are its share, which has one clock and one count of each
// worker's pushes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/server/consistency/consistency.h"
#include "paceline/core/server/sparse/sparse_rule.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::server {

inline constexpr int kArcsPerServer = 64;
inline constexpr std::uint64_t kIdBound = std::uint64_t{1} << 48;
inline constexpr std::size_t kMostWidth = 65'536;                       // elements of a row
inline constexpr int kMostAdmitAfter = 65'535;                          // pushes
inline constexpr std::int64_t kMostEvictAfter = std::int64_t{1} << 30;  // steps

// All workers and servers give the same.
struct SparseTableSpec {
  std::string name;  // unique among all tables of the job
  std::size_t width = 0;
  Dtype dtype = Dtype::f32;       // f32 or f64
  std::string synchrony = "bsp";  // bsp, ssp or asp; servers step
  std::string rule = "adagrad";   // sparse_rule.h: "adagrad:per=row,rate=0.05"
  std::uint64_t seed = 0;         // of the values that rows begin with
  double spread = 0.01;           // which lie in [-spread, spread), uniformly
  // The push of an id that stores its row, counted from 1; those before it count and change nothing.
  int admit_after = 0;  // 0 and 1: the first one
  // A row goes when this many of the table's steps have not pushed it. 0: none does.
  std::int64_t evict_after = 0;
  // Servers that keep each share: 1 .. kMostReplicas. A SparseTable of a job takes the job's.
  int replicas = 1;
};

// A SparseTableSpec that makes sense, and what follows from it. A value.
struct SparseShape {
  SparseTableSpec spec;
  TableMembers members;
  SparseRule rule;
  std::vector<double> settings;  // of the rule, in its order
  Pacing pacing;
  std::uint64_t root = 0;  // of the values that rows begin with

  std::size_t element_bytes() const { return size_of(spec.dtype); }
  std::size_t value_bytes() const { return spec.width * element_bytes(); }
  // Behind a row's values: the rule's state, and the stamp of a table that evicts.
  std::size_t state_bytes() const {
    return rule.state_elements(spec.width) * element_bytes() + stamp_bytes();
  }
  // The number of the step that pushed the row last, cut to 32 bits, and zeros.
  std::size_t stamp_bytes() const { return evicts() ? element_bytes() : 0; }
  bool evicts() const { return spec.evict_after > 0; }
  bool counts_pushes() const { return spec.admit_after > 1; }
  std::uint64_t servers() const { return members.servers.size(); }  // of the beginning
  // A share belongs to the chain of its number.
  std::vector<Chain> chains() const { return first_chains(members.servers, spec.replicas); }
  std::size_t chain_of(std::size_t share) const { return share; }
  std::uint64_t arcs() const { return servers() * kArcsPerServer; }
  std::uint64_t arc_of(std::uint64_t hash) const {
    constexpr int kHalf = 32;  // there are fewer arcs than 2^32
    return ((hash >> kHalf) * arcs()) >> kHalf;
  }
  std::size_t share_of(std::uint64_t hash) const {
    return static_cast<std::size_t>(arc_of(hash) % servers());
  }
  // An arc's number in the share of its server.
  std::size_t place_of(std::uint64_t arc) const {
    return static_cast<std::size_t>(arc / servers());
  }
  // Equal on members that mean the same table.
  std::uint64_t fingerprint() const;
};

// Ids of all tables are hashed alike, so that a list of ids is cut alike for each of them.
inline std::uint64_t hash_of_id(std::uint64_t id) {
  std::uint64_t z = id * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93u;
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93u;
  return z ^ (z >> 32);
}

// A failure (misuse) names the table, the setting and what is valid.
Result<SparseShape> shape_of(const SparseTableSpec& spec, const TableMembers& members);

// Writes what the row of this id begins with. REQUIRES: value_bytes() of them.
void begin_row(const SparseShape& shape, std::uint64_t id, std::byte* values);

}  // namespace paceline::server
