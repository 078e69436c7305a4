// VectorShape: vectors of equal length that servers hold, and the samples whose gradients they sum:
// all that the machines of this sub-room know of a full-batch L-BFGS.
//
// Each server has one shard of every vector: neighbouring elements, as many as on the others, to
// one. The samples are cut into portions of equal size, of which the last one may be shorter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/core/server/table/range_partition.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::server {

// The vectors, by their numbers. The pairs of L-BFGS follow: two vectors each.
struct NamedVector {
  enum : std::uint8_t {
    here,           // the parameters
    gradient,       // the mean gradient there
    base,           // the parameters where the iteration began
    base_gradient,  // the gradient where it began; then the last change of the gradient
    direction,      // along which it goes; then the last move
    count,
  };
};

struct VectorShape {
  std::string name;  // unique among the tables of the job
  std::size_t elements = 0;
  Dtype dtype = Dtype::f32;  // f32 or f64
  std::int64_t samples = 0;
  std::int64_t portion = 256;  // samples of one
  int history = 10;            // pairs that are kept
  TableMembers members = {};

  int coordinator() const { return members.workers.front(); }
  std::int64_t portions() const { return (samples + portion - 1) / portion; }
  // Portions under way lie within so many of the lowest one that is not done: twice the workers.
  std::int64_t window() const { return 2 * static_cast<std::int64_t>(members.workers.size()); }
  std::int64_t begin_of(std::int64_t number) const { return number * portion; }
  std::int64_t end_of(std::int64_t number) const;
  std::size_t vectors() const { return NamedVector::count + 2 * static_cast<std::size_t>(history); }
  std::size_t servers() const { return members.servers.size(); }
  ElementSpan shard(std::size_t server) const;  // counted from 0
  std::size_t shard_bytes(std::size_t server) const { return shard(server).count * size_of(dtype); }
  std::size_t bytes() const { return elements * size_of(dtype); }
  // Bytes that a member holds: a worker a few vectors, a server its shards of all of them and of
  // the gradients of a window of portions.
  std::size_t bytes_on(int member) const;
};

// The synchrony of a declaration that asks for vectors in place of a table.
inline constexpr const char* kVectorsSynchrony = "vectors";

// How workers declare it to the servers, and what a server reads of that. A failure (misuse) names
// what makes no sense and what is valid.
TableSpec declaration_of(const VectorShape& shape);
Result<VectorShape> vector_shape_of(const TableSpec& spec, const TableMembers& members);
Result<> check_vectors(const VectorShape& shape);
// Whether a member that can have so much memory can hold its part.
Result<> check_memory(const VectorShape& shape, int member, const transport::MemoryBound& bound);

}  // namespace paceline::server
