// Several exchanges of the same kind as one.
#pragma once

#include <vector>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

class Packing {
 public:
  Packing(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  // One exchange for all of these, with their inputs copied together; where they lie side by side
  // in memory already, nothing is copied. THROWS misuse: they do not go together.
  Exchange pack(std::vector<Exchange> exchanges);
  // It was carried out: the outputs get what came.
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
