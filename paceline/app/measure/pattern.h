// The data that ranks put into their buffers and the results that must come out: small whole
// numbers, whose sums are exact in every type, so that a result is right to the bit or wrong.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/core/base/bytes.h"

namespace paceline::measure {

// The data of all ranks in one operation. Another iteration has other values everywhere.
class Pattern {
 public:
  static constexpr int kSumOfAll = -1;  // a source: the sum of all ranks' data

  Pattern(Dtype dtype, int ranks, int iteration);

  // Writes the elements from, from + 1, ... of the source's data.
  void fill(MutableBytes where, int source, std::size_t from) const;
  // How many elements of `found` differ from those that fill() would write.
  std::size_t wrong(Bytes found, int source, std::size_t from) const;

 private:
  int value(int rank, std::size_t element) const;
  // One period of the data, or its first `count` elements when that is less.
  std::vector<std::byte> tile(int source, std::size_t from, std::size_t count) const;

  Dtype dtype_;
  int ranks_, iteration_, values_;
};

}  // namespace paceline::measure
