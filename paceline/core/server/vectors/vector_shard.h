// VectorShard: a server's shards of all vectors, and what it does to them in place.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/server/vectors/vector_packet.h"

namespace paceline::server {

// Each operation on elements is one rounding in the vectors' type; values that are told are sums in
// f64, in an order that follows from the length alone. THREAD: one.
class VectorShard {
 public:
  // `dtype`: f32 or f64. All elements are 0.
  VectorShard(std::size_t elements, Dtype dtype, std::size_t vectors);

  // Returns the values that the commands tell, in their order. REQUIRES: there are such vectors.
  std::vector<double> carry_out(std::span<const VectorCommand> commands);
  void clear(std::size_t vector);
  // These have the bytes of a shard, at any address.
  void store(std::size_t vector, Bytes elements);
  void add(std::size_t vector, Bytes elements);
  Bytes bytes(std::size_t vector) const;

 private:
  template <typename T>
  using Vectors = std::vector<std::vector<T>>;
  std::variant<Vectors<float>, Vectors<double>> vectors_;
};

}  // namespace paceline::server
