// The inputs of collectives in tests, and their expected results: whole numbers so small that every
// element type holds every partial result, so that a result is right to the bit or wrong.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"

namespace paceline::test {

// An endless row of elements, which repeats after kPeriod of them. Ranks have different rows.
class MixedPrecision {
 public:
  static constexpr std::size_t kPeriod = 251;

  static MixedPrecision of(Dtype dtype, int rank);
  static MixedPrecision reduced(Dtype dtype, ReduceOp op, int ranks);

  // Fills the buffer with the elements first, first + 1, ... of the row.
  void fill(Buffer buffer, std::size_t first = 0) const;
  // The first element of the buffer that differs from the row's; buffer.count if none does.
  std::size_t first_difference(ConstBuffer buffer, std::size_t first = 0) const;

 private:
  template <typename Function>
  MixedPrecision(Dtype dtype, const Function& element);
  // The row from element `first` on, kPeriod elements long.
  Bytes row_from(std::size_t first) const;

  Dtype dtype_;
  std::vector<std::byte> twice_;  // two periods
};

}  // namespace paceline::test
