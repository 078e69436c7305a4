// ShareChange: a change of a share of a sparse table, which each of its replicas carries out in the
// same order, and its form in bytes.
//
// A share has no other changes than these, so replicas that have carried out the same ones hold the
// same bits. Where workers' pushes make up a step, a change holds their mean, not the pushes. In
// bytes it is a header of 72 {kind 4, member 4, number 8, steps of the rule 8, total 8, weight 8,
// rate 8, decided 4, counts 4, ids 8, bytes of rows 8}, then for each push that it decides 24
// {worker 4, nothing 4, sequence 8, stamp 8}, the ids (8 bytes each), the counts (4 bytes each, for
// no id or for every one), and the rows. All is little-endian. read_entry() trusts nothing: it never
// reads or allocates beyond the bytes that came.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "paceline/core/server/sparse/sparse_rows.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {

// A worker's update of a share.
struct SparsePush {
  int worker = 0;
  std::uint64_t sequence = 0;
  std::int64_t stamp = 0;
  double weight = 1, rate = 0;
  SparseRows rows = {};
  // In the mean of a table that counts: how many pushes had each id; empty: one each.
  std::vector<std::uint32_t> counts = {};
};

// A value.
struct ShareChange {
  enum class Kind : std::uint32_t {
    step = 1,  // the mean of a step's pushes; `total` is their weights' sum, the clock rises by one
    taken,     // a push that belongs to no step, shown as soon as the pacing allows
    leave,     // a worker
    rest,      // a worker, for which nothing waits from here on [number: of its rest]
    wake,      // all have rested, and go on at the highest clock of theirs
    store,     // rows with their state, as they were saved [number: of the worker's exchange]
  } kind = Kind::step;
  int worker = 0;
  double total = 0;
  std::vector<SparsePush> pushes = {};  // of a step one, the mean, or none; of `taken` one
  std::int64_t rule_steps = 0;          // of `store`
  std::uint64_t number = 0;
  // A push of a worker that is decided by this change.
  struct Decided {
    int worker = 0;
    std::uint64_t sequence = 0;
    std::int64_t stamp = 0;
  };
  std::vector<Decided> decided = {};  // of a step by workers, of `taken` its push
};

std::string_view name_of(ShareChange::Kind kind);

inline constexpr std::size_t kShareChangeHeader = 72, kDecidedBytes = 24;
std::size_t bytes_of(const ShareChange& change);
void write_entry(const ShareChange& change, transport::WireWriter& writer);
// Reads one; false if the bytes are no change.
bool read_entry(transport::WireReader& reader, ShareChange& change);

// The parts of a push that a share keeps: number, stamp, weight, rate and rows.
void write_push(const SparsePush& push, transport::WireWriter& writer);
bool read_push(transport::WireReader& reader, SparsePush& push);

}  // namespace paceline::server
