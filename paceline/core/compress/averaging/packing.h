// Packs several exchanges of the same kind into one.
#pragma once

#include <vector>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

class Packing {
 public:
  Packing(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  // Returns one exchange for all of these, and copies their inputs together unless they are already
  // contiguous in memory. THROWS misuse: the exchanges differ in kind, element type, op or peers.
  Exchange pack(std::vector<Exchange> exchanges);
  // Call it once the packed exchange has been carried out: it copies the results to the outputs.
  void unpack();

 private:
  Exchange one_after_the_other(bool with_output);
  Exchange gather();
  Exchange to_all();

  const int rank_;
  const int ranks_;
  std::vector<Exchange> exchanges_;
  std::vector<std::byte> sent_, received_;
  bool copied_ = false;
};

}  // namespace paceline::compress
